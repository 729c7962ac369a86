package storekit

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// Number returns a version as a database keeps it: a signed number.
func Number(v register.Version) int64 { return int64(binary.BigEndian.Uint64(v[:])) }

// Version returns the version that Number made n of.
func Version(n int64) (v register.Version) {
	binary.BigEndian.PutUint64(v[:], uint64(n))
	return v
}

// Micros returns an age, or a moment of a clock, in microseconds. It is never negative, even if the server's clock was set back.
func Micros(us int64) time.Duration { return max(Since(us), 0) }

// Since returns what a server's clock says of the time between two moments, in microseconds. It is negative if the clock was set
// back in between.
func Since(us int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Microsecond)
	return time.Duration(min(max(us, -most), most)) * time.Microsecond
}

// Pages lists the registers whose keys begin with prefix in the order of their keys. read returns those from one key up to,
// and without, another: the first ones, size at most. No connection is in use while yield is called.
func Pages(prefix string, size int, read func(from, to []byte) ([]register.Item, error), yield func(register.Item) bool) error {
	from, to := []byte(prefix), append([]byte(prefix), 0xff) // keys are UTF-8, so none of their bytes is 0xff
	if prefix == "" {
		from = []byte{' '} // keys have no control characters
	}
	for {
		found, err := read(from, to)
		if err != nil {
			return err
		}
		for _, it := range found {
			if !yield(it) {
				return nil
			}
		}
		if len(found) < size {
			return nil
		}
		from = append([]byte(found[len(found)-1].Key), 0) // there is no key in between
	}
}

// Large returns a yield for Pages where a page leaves out the values of large registers, so that many of those are not too much for one
// answer: such a register has the value nil, and is looked at by itself. failed is why that failed.
func Large(failed *error, look func(key string) (register.Item, error), yield func(register.Item) bool) func(register.Item) bool {
	return func(it register.Item) bool {
		if it.Value == nil {
			if it, *failed = look(it.Key); *failed != nil {
				return false
			}
			if it.Version.IsZero() { // it has gone
				return true
			}
		}
		return yield(it)
	}
}

// errGoneAgain has Change try again.
var errGoneAgain = errors.New("what was in the way of the swap is gone: is there a trigger or a rule on the table?")

// Outcome says what came of a swap that has changed nothing, by what stands there now: cur, which may be reserved for
// somebody else. It returns nil if an earlier try of the swap was applied, and otherwise register.ErrConflict, or for Change
// that the swap is worth another try.
func Outcome(w *register.Swap, cur register.Item, reserved bool) error {
	switch {
	case cur.Version == w.Next:
		return nil
	case cur.Version == w.Old && !reserved:
		return errGoneAgain
	}
	return register.ErrConflict
}
