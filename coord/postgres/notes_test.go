package postgres

import (
	"bytes"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/register"
)

// FuzzNotes hears what anybody may say on a channel, before a note of ours and after it. Whatever it is, ours comes whole, and
// nothing is kept in the end.
func FuzzNotes(f *testing.F) {
	for _, said := range []string{"", "=", "0=YQ", "0+YQ", "0+YQ\n1-YQ", "1-YQ", "0=*", "+\n+\n-", strings.Repeat("0+YWFh\n", 100), "\x00=\xff"} {
		f.Add(said, []byte("a note"))
	}
	f.Add("0+YQ", bytes.Repeat([]byte{0xff}, maxPiece+1))
	f.Fuzz(func(t *testing.T, said string, note []byte) {
		var heard [][]byte
		l := &listener{channels: map[string]*topic{}}
		ours := &topic{ears: []*ear{{hear: func(text []byte) { heard = append(heard, text) }}}}
		m := &memory{identity: "1"}
		channel := m.channel("a")
		l.channels[channel] = ours
		say := func() {
			for _, text := range strings.Split(said, "\n") {
				l.hear(channel, text)
			}
		}
		if len(note) == 0 || len(note) > 2*maxPiece {
			return
		}
		say()
		heard = nil
		channels, texts := m.encode([]register.Note{{Topic: "a", Text: note}})
		for i, text := range texts {
			l.hear(channels[i], text)
		}
		if len(heard) == 0 || !bytes.Equal(heard[len(heard)-1], note) || ours.half != nil {
			t.Errorf("after %q the note %q is heard as %q", said, note, heard)
		}
		before := len(heard)
		say()
		if len(heard)-before > 2*strings.Count(said, "\n")+2 {
			t.Errorf("%q tells %d times", said, len(heard)-before)
		}
	})
}
