package storekit

import (
	"errors"

	"github.com/turnwise/turnwise/coord/register"
)

// Expected swaps a register where the server makes a change only if what it replaces is what the store expects. At says what that
// is, such as the number of a write. The zero At expects that nothing was ever there.
type Expected[At any] struct {
	Look   func() (register.Item, At, error)  // what stands there
	Change func(at At) (register.Item, error) // replaces what stands at that
	Stale  func(err error) bool               // whether Change was refused since something else stands there, or nothing any more
}

// errUnsteady says that others write to a register again and again, and swap nothing.
var errUnsteady = errors.New("it changes all the time, though nobody swaps the register: what else writes to it?")

// Swap changes what was seen last. It looks first unless that is sure to be what is to be replaced, and looks again if it is not there
// any more. So sure says that what was seen last had the version w.Old.
// A swap that changes nothing asks nobody who would check the guess, so it looks as well.
func (e Expected[At]) Swap(w *register.Swap, last At, sure bool) (register.Item, error) {
	changesNothing := w.Old == w.Next && len(w.Notes) == 0
	at := last
	sure = sure && !changesNothing
	for range maxTries {
		if !sure {
			cur, found, err := e.Look()
			switch {
			case err != nil:
				return cur, err
			case cur.Version == w.Next && w.Next != w.Old:
				return cur, nil // an earlier try
			case cur.Version != w.Old:
				return cur, register.ErrConflict
			case changesNothing:
				return register.Item{Key: w.Key}, nil
			}
			at = found
		}
		cur, err := e.Change(at)
		if err == nil || !e.Stale(err) {
			return cur, err
		}
		sure = false
	}
	return register.Item{}, errUnsteady
}
