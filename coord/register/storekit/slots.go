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

// Take waits for a slot, until ctx ends. The caller calls free once, when the request is over.
func (s *Slots) Take(ctx context.Context) (free func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slots := s.usual
	if register.IsRenewal(ctx) {
		select {
		case slots <- struct{}{}:
			return func() { <-slots }, nil
		default:
			slots = s.renewals
		}
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
