package storekit

import (
	"context"

	"github.com/turnwise/turnwise/coord/register"
)

// Slots let some requests be under way at a time, and the renewal of a session beside them. Somebody who may lock lines at the
// service, and nothing more, can have any number of requests wait there until they time out: they must not stand in the way of
// what the holds of other lines live by.
type Slots struct{ usual, renewals chan struct{} }

// NewSlots returns slots for that many requests, and for one renewal.
func NewSlots(n int) *Slots { return &Slots{make(chan struct{}, n), make(chan struct{}, 1)} }

// Take waits for a slot, until ctx ends. It says whether the slot is the one for renewals: a second one at the same time has any. The
// caller calls free once, when the request is over.
func (s *Slots) Take(ctx context.Context) (free func(), renews bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	var renewals chan struct{} // nil: none for others
	if register.IsRenewal(ctx) {
		renewals = s.renewals
		select {
		case renewals <- struct{}{}:
			return func() { <-renewals }, true, nil
		default:
		}
	}
	select {
	case renewals <- struct{}{}:
		return func() { <-renewals }, true, nil
	case s.usual <- struct{}{}:
		return func() { <-s.usual }, false, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}
