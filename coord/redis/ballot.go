package redis

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/turnwise/turnwise/coord/register"
)

// A ballot orders what is proposed for a register: 16 digits that count and 16 that tell rounds apart. They are digits
// because Lua compares texts by the rules of the server's language.
type ballot struct{ count, round uint64 }

const (
	ballotSize = 32
	ballotEnd  = 1e15 // a Lua number holds more than this exactly
)

func newBallot(count uint64) ballot { return ballot{count, 1 + rand.Uint64N(ballotEnd)} }

// next is the ballot that an acceptor promises together with what it accepts.
func (b ballot) next() ballot { return ballot{b.count + 1, b.round} }

func (b ballot) String() string { return fmt.Sprintf("%016d%016d", b.count, b.round) }

func parseBallot(s string) (b ballot) {
	if len(s) >= ballotSize {
		b.count, _ = strconv.ParseUint(s[:16], 10, 64)
		b.round, _ = strconv.ParseUint(s[16:ballotSize], 10, 64)
	}
	return b
}

func (b ballot) less(c ballot) bool {
	return b.count < c.count || b.count == c.count && b.round < c.round
}

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

func decodeContent(s string) (c content, err error) {
	const fixed = 16 + 8*pastSize + 4
	if len(s) < fixed {
		return c, errStrange
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
	size := int(binary.BigEndian.Uint32([]byte(s[fixed-4 : fixed])))
	if len(s) < fixed+size {
		return c, errStrange
	}
	notes, value := s[fixed:fixed+size], s[fixed+size:]
	for len(notes) > 0 {
		var part [2]string
		for i := range part {
			if len(notes) < 4 {
				return c, errStrange
			}
			n := int(binary.BigEndian.Uint32([]byte(notes[:4])))
			if len(notes) < 4+n {
				return c, errStrange
			}
			part[i], notes = notes[4:4+n], notes[4+n:]
		}
		c.notes = append(c.notes, register.Note{Topic: part[0], Text: []byte(part[1])})
	}
	if !c.version.IsZero() {
		c.value = []byte(value)
	}
	return c, nil
}
