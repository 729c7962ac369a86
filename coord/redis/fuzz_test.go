package redis

import (
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/register"
)

// FuzzRegister reads what stands under a key: a value of ours, or an error.
func FuzzRegister(f *testing.F) {
	for _, text := range []string{"", "x", strings.Repeat("0", headSize-1), strings.Repeat("0", headSize), strings.Repeat("\xff", headSize+1)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		it, err := parse("a", text, 1)
		if err != nil && (it.Version != register.Version{} || it.Value != nil) || err == nil && string(it.Value) != string(text[headSize:]) {
			t.Errorf("%q is %v, %v", text, it, err)
		}
	})
}
