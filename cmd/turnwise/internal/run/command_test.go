//go:build linux || darwin

package run

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACommandIsCarriedByteForByte(t *testing.T) {
	for _, c := range []Command{
		{},
		{Path: "/tmp/\xff", Args: []string{"\xff", "", "a\u2028b", "\x00\x7f\xc3"}, Env: []string{"A=\xfe", "B=ä"}, Alone: true, Foreground: true, Mortal: true, Outlives: true, Cgroup: "/c/\x80"},
	} {
		b, err := json.Marshal(c)
		require.NoError(t, err)
		var got Command
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, c, got)
	}
}
