package status

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What others write reaches a program as it is, and a terminal as text that does nothing.
func TestJSONIsSafeToShow(t *testing.T) {
	for _, text := range []string{"plain <&>", "żółw 龍 🙂", "\x1b[2J", "\u009b2J", "a\u202eb\u2066c", "\u200b\ufeff\u00ad", "\x7f\\\"", "\U000e0041", "\u2028"} {
		line := JSON(map[string]string{"name": text})
		var back map[string]string
		require.NoError(t, json.Unmarshal(line, &back))
		assert.Equal(t, text, back["name"])
		assert.True(t, strings.HasSuffix(string(line), "}\n"))
		for _, r := range strings.TrimSuffix(string(line), "\n") {
			assert.Falsef(t, r < 0x20 || r == 0x7f || r >= 0x80 && !strings.ContainsRune("żół龍🙂", r), "%q has %q", line, r)
		}
	}
	assert.Equal(t, `{"name":"plain \u003ci\u003e żółw"}`+"\n", string(JSON(map[string]string{"name": "plain <i> żółw"})))
}
