package register

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

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
		b := []byte{lineFormat, 0, 1, 1, 0, 0, 0, 0}
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

// forgedOwner encodes an owner however long it is.
func forgedOwner(host, label string) string {
	return string(append(binary.AppendVarint(appendBytes(nil, host), 7), label...))
}

// Who waits says whose turn it is with each change. A name of megabytes would fill his log.
func TestANameIsNoLongerThanWeWriteOne(t *testing.T) {
	long := strings.Repeat("\U000e0001", 3<<18)
	for what, c := range map[string]struct{ host, label, wantHost, wantLabel string }{
		"a long host":                 {long, "x", long[:252], "x"},
		"a long label":                {"h", long, "h", long[:1024]},
		"both":                        {"é" + long, "x" + long, "é" + long[:252], "x" + long[:1020]},
		"a host that is a bit longer": {strings.Repeat("h", driver.MaxHost+1), "", strings.Repeat("h", driver.MaxHost), ""},
		"no text":                     {strings.Repeat("\x80", 1000), "", strings.Repeat("\x80", driver.MaxHost-3), ""},
		"the longest of ours":         {strings.Repeat("h", driver.MaxHost), strings.Repeat("l", driver.MaxLabel), strings.Repeat("h", driver.MaxHost), strings.Repeat("l", driver.MaxLabel)},
	} {
		l := &line{next: 2, count: 1, first: 1, last: 1, members: []member{{owner: forgedOwner(c.host, c.label)}}, kinds: []string{"lock"}}
		l.entries = appendEntry(nil, node{token: 1}, 0)
		read, err := readLine(l.encode())
		if err != nil {
			t.Fatal(err)
		}
		for n := range read.nodes() {
			if o := read.full("x", n, make(map[int]*driver.Owner)).Owner; o.Host != c.wantHost || o.Label != c.wantLabel || o.PID != 7 {
				t.Errorf("%s: host %.20q… of %d, label %.20q… of %d, PID %d", what, o.Host, len(o.Host), o.Label, len(o.Label), o.PID)
			}
		}
		if kept := len(read.members[0].owner); kept > mostOwner {
			t.Errorf("%s: %d bytes are kept", what, kept)
		}
		if again, err := readLine(read.encode()); err != nil || again.members[0].owner != read.members[0].owner {
			t.Errorf("%s: it is written as something else: %v", what, err)
		}
	}
}

// What we write is read as it is, so that a session is one member however often it joins.
func TestASessionWithALongNameIsOneMember(t *testing.T) {
	d := newDraft(&line{next: firstToken(1)})
	for n := range uint64(3) {
		id := sessionID{1}
		d.join(id, publicKey{7}, n, "lock", driver.Owner{Host: strings.Repeat("é", 1000), PID: 7, Label: strings.Repeat("龍", 1000)}, nil, 0)
		l, err := readLine(d.encode())
		if err != nil || len(l.members) != 1 {
			t.Fatalf("%d members: %v", len(d.members), err)
		}
		d = newDraft(l)
	}
}

// An owner of whom there are a hundred thousand nodes is kept once.
func TestAnOwnerIsShownOftenAndKeptOnce(t *testing.T) {
	l := &line{next: 1 << 40, count: maxNodes, first: 1, kinds: []string{"lock"}}
	l.members = []member{{owner: encodeOwner(driver.Owner{Host: strings.Repeat("h", driver.MaxHost), Label: strings.Repeat("l", driver.MaxLabel)})}}
	for token := range uint64(maxNodes) {
		l.entries = appendEntry(l.entries, node{token: token + 1}, l.last)
		l.last = token + 1
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	shown, owners := int64(0), make(map[int]*driver.Owner)
	for n := range l.nodes() {
		shown += int64(len(l.full("x", n, owners).Owner.Label))
	}
	runtime.ReadMemStats(&after)
	if shown != maxNodes*driver.MaxLabel {
		t.Errorf("%d bytes of owners are shown", shown)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("it takes %d bytes", took)
	}
}

// When half of a crowd has gone, who is gone is forgotten in one pass: going through all who stay for each who stays took
// minutes.
func TestACrowdOfManyOwnersIsForgottenInOnePass(t *testing.T) {
	d := newDraft(&line{next: firstToken(1)})
	for n := range uint64(maxNodes / 2) {
		id := sessionID{byte(n), byte(n >> 8), byte(n >> 16), 1}
		e := node{token: d.next, member: len(d.members), n: n, kind: d.kind("lock")}
		d.members = append(d.members, member{id: id, key: publicKey{7}, owner: "\x01h\x00"})
		if d.count == 0 {
			d.first, d.last = e.token, e.token
		}
		d.entries = appendEntry(d.entries, e, d.last)
		d.last, d.next, d.count = e.token, d.next+1, d.count+1
	}
	began := time.Now()
	d.remove(maxNodes, died, func(n node) bool { return n.n%4 != 1 })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := d.check(); err != nil || len(d.members) != d.count || d.count != maxNodes/8 {
		t.Errorf("%d nodes of %d members stay: %v", d.count, len(d.members), err)
	}
	for n := range d.nodes() {
		if id := d.members[n.member].id; uint64(id[0])|uint64(id[1])<<8|uint64(id[2])<<16 != n.n {
			t.Fatalf("node %d belongs to session %v", n.n, id)
		}
	}
}
