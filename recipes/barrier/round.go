package barrier

import (
	"fmt"

	"github.com/turnwise/turnwise/coord"
)

// round is one that has begun. All who stand no later than last belong to it, or to one before.
type round struct {
	number uint64
	last   coord.Token
}

// reaches reports whether one with that token belongs to a round that has begun.
func (r round) reaches(t coord.Token) bool { return r.number > 0 && t <= r.last }

// String is how it stands in the memo.
func (r round) String() string { return fmt.Sprintf("barrier: round %d to %d", r.number, r.last) }

func parseRound(s string) (r round, ok bool) {
	_, err := fmt.Sscanf(s, "barrier: round %d to %d", &r.number, &r.last)
	return r, err == nil && r.String() == s
}

// mark is what a waiter says about itself: how many it takes, and which round it has begun.
type mark struct {
	size  int
	begun round
}

func (m mark) encode() []byte {
	if m.begun == (round{}) {
		return fmt.Appendf(nil, "barrier for %d", m.size)
	}
	return fmt.Appendf(nil, "barrier for %d, round %d to %d", m.size, m.begun.number, m.begun.last)
}

// parseMark returns the zero mark for what is none.
func parseMark(data []byte) (m mark) {
	s := string(data)
	if n, _ := fmt.Sscanf(s, "barrier for %d, round %d to %d", &m.size, &m.begun.number, &m.begun.last); n < 3 {
		m.begun = round{}
	}
	if string(m.encode()) != s {
		return mark{}
	}
	return m
}
