package quorum

import (
	"reflect"
	"testing"

	"github.com/turnwise/turnwise/coord/register"
)

// FuzzAccepted reads what stands in a register at one of the servers. What is read comes of what is written, and says the same
// when it is written again.
func FuzzAccepted(f *testing.F) {
	c := content{id: register.Version{1}, version: register.Version{2}, past: []register.Version{{3}, {4}}, value: []byte("value"),
		notes: []register.Note{{Topic: "topic", Text: []byte("text")}, {Text: []byte{}}}}
	head := ballot{7, 8}.String() + "00000000000000000000000000000000"[:timeSize]
	plain := c.encode()
	f.Add(head + plain)
	f.Add(head + content{}.encode())
	f.Add(head)
	for _, length := range []string{"\xff\xff\xff\xff", "\x80\x00\x00\x00", "\x00\x00\x00\x07"} {
		f.Add(head + plain[:16+8*pastSize] + length + plain[16+8*pastSize+4:])
		f.Add(head + plain[:16+8*pastSize+4] + length + plain[16+8*pastSize+8:])
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseAccepted(s)
		if err != nil {
			return
		}
		size := len(a.content.value) + 8*len(a.content.notes)
		for _, n := range a.content.notes {
			size += len(n.Topic) + len(n.Text)
		}
		if size > len(s) {
			t.Errorf("%q becomes %d bytes", s, size)
		}
		again, err := decodeContent(a.content.encode())
		if err != nil || a.ballot != (ballot{}) && !reflect.DeepEqual(again, a.content) {
			t.Errorf("%q is read as %+v, and that as %+v, %v", s, a.content, again, err)
		}
	})
}
