package quorum

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
)

// content is what is proposed: what a register holds, and how it came to that.
type content struct {
	id      register.Version   // of the swap, even if that empties the register
	version register.Version   // zero: empty
	past    []register.Version // the swaps before, the latest first, as many as are known
	value   []byte
	notes   []register.Note // told again if the content is written back: perhaps nobody has heard them
}

// pastSize is how many earlier swaps a register knows of. A proposer that was disturbed finds out there whether its swap was
// applied.
const pastSize = 32

// after returns what a swap makes of c.
func (c content) after(s register.Swap) content {
	next := content{id: s.Next, version: s.Next, value: s.Value, notes: s.Notes}
	if s.Next.IsZero() {
		next.id = register.NewVersion()
	}
	if !c.id.IsZero() {
		next.past = append(append(next.past, c.id), c.past...)
		next.past = next.past[:min(len(next.past), pastSize)]
	}
	return next
}

// encode returns what an acceptor keeps after the ballots and the time: id, version, past, then the notes and the value.
func (c content) encode() string {
	b := make([]byte, 0, 16+8*pastSize+4+len(c.value))
	b = append(b, c.id[:]...)
	b = append(b, c.version[:]...)
	for i := range pastSize {
		var v register.Version
		if i < len(c.past) {
			v = c.past[i]
		}
		b = append(b, v[:]...)
	}
	var notes []byte
	for _, n := range c.notes {
		for _, part := range []string{n.Topic, string(n.Text)} {
			notes = binary.BigEndian.AppendUint32(notes, uint32(len(part)))
			notes = append(notes, part...)
		}
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(notes)))
	b = append(b, notes...)
	return string(append(b, c.value...))
}

// decodeContent reads what encode wrote. It trusts no length: the server may be somebody else's.
func decodeContent(s string) (c content, err error) {
	const fixed = 16 + 8*pastSize + 4
	if len(s) < fixed {
		return c, errForeign
	}
	copy(c.id[:], s)
	copy(c.version[:], s[8:])
	for i := range pastSize {
		var v register.Version
		if copy(v[:], s[16+8*i:]); v.IsZero() {
			break
		}
		c.past = append(c.past, v)
	}
	notes, value, ok := cutLong(s[fixed-4:])
	for ok && len(notes) > 0 {
		var topic, text string
		if topic, notes, ok = cutLong(notes); ok {
			text, notes, ok = cutLong(notes)
		}
		c.notes = append(c.notes, register.Note{Topic: topic, Text: []byte(text)})
	}
	if !ok {
		return c, errForeign
	}
	if !c.version.IsZero() {
		c.value = []byte(value)
	}
	return c, nil
}

// cutLong takes a text off that has its length before it.
func cutLong(s string) (text, rest string, ok bool) {
	if len(s) < 4 {
		return "", "", false
	}
	n := binary.BigEndian.Uint32([]byte(s[:4]))
	if uint64(len(s)-4) < uint64(n) { // an int may have no more than 32 bits
		return "", "", false
	}
	return s[4 : 4+n], s[4+n:], true
}

// accepted is what an acceptor has accepted for a register.
type accepted struct {
	ballot  ballot // zero: nothing
	content content
	age     time.Duration
}

// item returns what stands in a register of which that was accepted.
func (a accepted) item(key string) register.Item {
	if a.content.version.IsZero() {
		return register.Item{Key: key}
	}
	return register.Item{Key: key, Value: a.content.value, Version: a.content.version, Age: a.age}
}

// parseAccepted reads what follows the promised ballot.
func parseAccepted(s string) (a accepted, err error) {
	if len(s) < ballotSize+timeSize || len(s) > server.MaxStored { // what is longer is cut off there
		return a, errForeign
	}
	if a.ballot = parseBallot(s); a.ballot == (ballot{}) {
		return a, nil // only promised
	}
	if !a.ballot.isPossible() {
		return a, errForeign
	}
	a.content, err = decodeContent(s[ballotSize+timeSize:])
	return a, err
}

// tag says to which proposal a note belongs: the ballot, the term, the swap, the register, and which of the swap's notes it is.
func tag(p accepted, term uint64, key string, i int) string {
	b := append([]byte(p.ballot.String()+digits(term)), p.content.id[:]...)
	b = binary.BigEndian.AppendUint64(b, hash(key))
	return string(binary.BigEndian.AppendUint16(b, uint16(i)))
}

const (
	callSize = ballotSize + termSize
	tagSize  = callSize + 8 + 8 + 2
)

// hash is the same for a key in every process.
func hash(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}
