package fence

import (
	"cmp"
	"fmt"

	"github.com/turnwise/turnwise/coord"
)

// Stamp is what a write brings along, and what fences compare.
type Stamp struct {
	Epoch uint32      // goes before the token; raised when a lock moves to another engine
	Token coord.Token // of the hold
}

// Compare returns -1 if s is older than o, 1 if it is newer, and 0 if both are of the same hold.
func (s Stamp) Compare(o Stamp) int {
	return cmp.Or(cmp.Compare(s.Epoch, o.Epoch), cmp.Compare(s.Token, o.Token))
}

// After returns nil if a write with s may come after one with last, and otherwise an error that is coord.ErrStale. A
// zero last says that nothing has been seen yet. A stamp without a token comes after nothing: that is coord.ErrInvalid.
func (s Stamp) After(last Stamp) error {
	switch {
	case s.Token <= 0:
		return fmt.Errorf("%w: no hold has the token %d", coord.ErrInvalid, s.Token)
	case s.Compare(last) < 0:
		return fmt.Errorf("%w: %v, and %v has been seen", coord.ErrStale, s, last)
	}
	return nil
}

func (s Stamp) String() string {
	if s.Epoch == 0 {
		return fmt.Sprint(int64(s.Token))
	}
	return fmt.Sprintf("%d of epoch %d", s.Token, s.Epoch)
}
