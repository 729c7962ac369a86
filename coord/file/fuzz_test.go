//go:build linux || darwin

package file

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// FuzzContent reads a register's file. What is read is what was written, and no more.
func FuzzContent(f *testing.F) {
	whole := appendContent(nil, "line/orders", register.NewVersion(), []byte("value"))
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(bytes.Replace(whole, []byte("line/"), []byte("lime/"), 1))
	f.Add([]byte("turnwise 0011223344556677 00000000 9999 17179869183\n"))
	f.Add([]byte("turnwise 0011223344556677 00000000 -001 -0000000001\n\n"))
	f.Add(bytes.Repeat([]byte{0}, 4096))
	f.Fuzz(func(t *testing.T, b []byte) {
		it, err := parse(b)
		if err != nil {
			return
		}
		if again := appendContent(nil, it.Key, it.Version, it.Value); !strings.EqualFold(string(b[:headLength]), string(again[:headLength])) {
			t.Errorf("%q is read as %q, which is written %q", b, it.Value, again)
		}
		if len(it.Key)+len(it.Value) > len(b) {
			t.Errorf("%d bytes become %d", len(b), len(it.Key)+len(it.Value))
		}
	})
}

// FuzzLayout reads a directory's layout.
func FuzzLayout(f *testing.F) {
	f.Add(layout{version: "1", id: "x", boot: "y", sync: true, forgot: time.Unix(1, 0)}.String())
	f.Add(layoutHead)
	f.Add(layoutHead + "1\nid ../../x\nboot \x00\nforgot 9999-12-31T23:59:59Z\n")
	f.Add(layoutHead + "2\n" + strings.Repeat("id x\n", 1000))
	f.Add(strings.Repeat("\n", longestLayout))
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLayout(text)
		if err != nil {
			return
		}
		again, err := parseLayout(l.String())
		if err != nil || again.version != l.version || again.id != l.id || again.boot != l.boot || again.sync != l.sync || !again.forgot.Equal(l.forgot) {
			t.Errorf("%q is read as %+v, and that as %+v: %v", text, l, again, err)
		}
	})
}

// FuzzMessages reads what anybody has written into a pipe, in pieces: the messages are the same, and a beginning of one that
// is left is never longer than one can be.
func FuzzMessages(f *testing.F) {
	f.Add(append(message('n', []byte("\x00\x01xtext")), message('s', []byte("../../x"))...), byte(3))
	f.Add([]byte("\xff\xff\xff"), byte(0))
	f.Add(bytes.Repeat([]byte{0}, 100), byte(1))
	f.Add(message('n', bytes.Repeat([]byte("x"), 4000)), byte(7))
	f.Fuzz(func(t *testing.T, b []byte, step byte) {
		read := func(step int) (all []string) {
			var left []byte
			for rest := b; len(rest) > 0; rest = rest[min(step, len(rest)):] {
				left = messages(append(bytes.Clone(left), rest[:min(step, len(rest))]...), func(kind byte, rest []byte) {
					all = append(all, string(kind)+string(rest))
					textFor("x", rest)
				})
				if len(left) >= messageHead+1<<16 {
					t.Fatalf("%d bytes are left", len(left))
				}
			}
			return all
		}
		at, pieces := read(len(b)+1), read(1+int(step&15))
		if strings.Join(at, "|") != strings.Join(pieces, "|") {
			t.Errorf("%q is read as %q, and in pieces as %q", b, at, pieces)
		}
	})
}
