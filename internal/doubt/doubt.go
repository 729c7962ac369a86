// Package doubt is what a holder does who hears that its node is gone: with its session, or without?
package doubt

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// patience is for how long it goes on asking. A busy machine takes 20 ms to hear that a session has ended.
const patience = 50 * time.Millisecond

// Ask asks the service. If that does not answer soon the news is enough, and the node counts as removed: a holder must not
// go on believing until a stalled link answers. over reports whether the session has ended meanwhile.
func Ask(ctx context.Context, over func() bool, ask func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := ask(asking)
	if err != nil && asking.Err() != nil && ctx.Err() == nil && !over() {
		return driver.ErrRemoved
	}
	return err
}
