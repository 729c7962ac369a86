package register

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
)

// What somebody else wrote costs its reader little, and is refused.
func TestALineThatWeCannotHaveWrittenIsRefused(t *testing.T) {
	one := func(kind string) []byte {
		l := &line{next: 2, count: 1, first: 1, last: 1, members: []member{{}}, kinds: []string{kind}}
		l.entries = appendEntry(nil, node{token: 1}, 0)
		return l.encode()
	}
	head := func(members, kinds []byte) []byte {
		b := []byte{format, 0, 1, 1, 0, 0, 0, 0}
		return appendBytes(appendBytes(b, members), kinds)
	}
	many := func(n int, of byte) []byte {
		return append(binary.AppendUvarint(nil, uint64(n)), bytes.Repeat([]byte{of}, n)...)
	}
	full := &line{next: 1 << 40, count: maxNodes + 1, first: 1, members: []member{{}}, kinds: []string{"lock"}}
	for token := uint64(1); token <= maxNodes+1; token++ {
		full.entries = appendEntry(full.entries, node{token: token}, full.last)
		full.last = token
	}
	if _, err := readLine(one("lock")); err != nil {
		t.Fatal(err)
	}
	for what, value := range map[string][]byte{
		"an empty kind":        one(""),
		"a control character":  one("a\x1b"),
		"a long kind":          one(strings.Repeat("a", driver.MaxKind+1)),
		"too many nodes":       full.encode(),
		"members cut short":    head(many(16<<20, 0xff), []byte{0}),
		"empty kinds":          head([]byte{0}, many(16<<20, 0)),
		"too many members":     head(many(16<<20, 0), []byte{0}),
		"too long for anybody": head([]byte{0}, many(64<<20, 0)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readLine(value)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errNoLine) {
			t.Errorf("%s: %v", what, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%s: %d bytes of value take %d bytes of memory", what, len(value), took)
		}
	}
}

// Nobody joins a line that would soon be too long for those who read it.
func TestALineIsFullBeforeItIsTooLongToBeRead(t *testing.T) {
	for what, l := range map[string]*line{
		"nodes": {count: maxNodes / 2},
		"bytes": {count: 1, entries: make([]byte, maxLine/2)},
	} {
		if !l.isFull() {
			t.Errorf("%s: there is room for one more", what)
		}
	}
	if l := (&line{count: maxNodes/2 - 1}); l.isFull() {
		t.Error("it is full too soon")
	}
}

// What is cut short is not taken for something shorter.
func TestALengthThatGoesBeyondTheEndIsRefused(t *testing.T) {
	l := &line{next: 2, count: 1, first: 1, last: 1, members: []member{{owner: "owner"}}, kinds: []string{"lock"}}
	l.entries = appendEntry(nil, node{token: 1}, 0)
	text := l.encode()
	if _, err := readLine(text); err != nil {
		t.Fatal(err)
	}
	text[bytes.Index(text, []byte("owner"))-1] = 100
	if l, err := readLine(text); !errors.Is(err, errNoLine) {
		t.Errorf("it is read as %v, %v", l, err)
	}
}
