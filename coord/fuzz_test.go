package coord

import (
	"bytes"
	"testing"
)

// FuzzTurnNotes reads what others have written into their nodes: what is taken for a note is one that we would write, and nothing
// of the data is lost.
func FuzzTurnNotes(f *testing.F) {
	for _, data := range []string{"", noteHead, noteHead + noteTime, noteHead + noteTime + "\n", noteHead + noteTime + "\nmore",
		noteHead + "2026-02-30T00:00:00.000Z\n", noteHead + "2026-02-03T00:00:00,000Z\n", noteHead + "0000-01-01T00:00:00.000Z\n\x00"} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n := readNote(Node{Data: data})
		again := n.Data
		if len(n.Data) < len(data) {
			again = append([]byte(noteHead+n.Turn.Format(noteTime)+"\n"), n.Data...)
		}
		if !bytes.Equal(again, data) {
			t.Errorf("%q is a note of %v with %q, and that is %q", data, n.Turn, n.Data, again)
		}
	})
}
