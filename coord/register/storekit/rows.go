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

// Whoever may write to one row may put much into it, and many rows may have much. No register has more than MostRead bytes: what is there
// instead of more is nobody's. A page of a list leaves out what has more than MostListed. Both are as SQL has them.
const (
	MostRead   = "33554432"
	MostListed = "65536"
)

// Pages lists the registers whose keys begin with prefix in the order of their keys. page returns those from one key up to,
// and without, another: the first ones, size at most. One whose value it leaves out, which is nil then, is read by itself. No
// connection is in use while yield is called. It is of no use where a key is found by a hash of it.
func Pages(prefix string, size int, page func(from, to []byte) ([]register.Item, error), read func(key string) (register.Item, error),
	yield func(register.Item) bool) error {
	from, to := []byte(prefix), append([]byte(prefix), 0xff) // keys are UTF-8, so none of their bytes is 0xff
	if prefix == "" {
		from = []byte{' '} // keys have no control characters
	}
	for {
		found, err := page(from, to)
		if err != nil {
			return err
		}
		for _, it := range found {
			if it.Value == nil {
				if it, err = read(it.Key); err != nil {
					return err
				}
				if it.Version.IsZero() { // it has gone
					continue
				}
			}
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
