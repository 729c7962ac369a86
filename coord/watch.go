package coord

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// watchAfter is how long a hold must last before its node is worth watching.
const watchAfter = 100 * time.Millisecond

// startWatch watches the node of a hold that lasts, to hear if it is removed.
func (h *Hold) startWatch() {
	h.changing <- struct{}{}
	if h.end.Load() != nil || h.unwatch != nil {
		<-h.changing
		return
	}
	var ctx context.Context
	ctx, h.unwatch = context.WithCancel(h.ctx)
	<-h.changing

	for ctx.Err() == nil {
		err := h.place.Watch(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, driver.ErrSessionEnded):
			if !h.session.ended() { // otherwise the session's keeper deals with it
				h.finish(lostNode)
			}
			return
		case errors.Is(err, driver.ErrRemoved):
			h.finish(lostRemoved)
			return
		}
		select {
		case <-time.After(watchAfter):
		case <-ctx.Done():
		}
	}
}

// endWatch is called with changing taken.
func (h *Hold) endWatch() {
	h.timer.Stop()
	if h.unwatch != nil {
		h.unwatch()
		h.unwatch = nil
	}
}
