// Package bell is how somebody who waits is woken.
package bell

import "context"

// Bell wakes one waiter. Rung more than once before it is heard, it wakes once.
type Bell chan struct{}

func New() Bell { return make(Bell, 1) }

func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Unless does what may take long, and has it given up when the bell rings: its context ends, what it returns is of no
// interest, and the bell is still to be heard. Otherwise Unless returns the error of do.
func (b Bell) Unless(ctx context.Context, do func(context.Context) error) error {
	doing, giveUp := context.WithCancel(ctx)
	listened := make(chan bool)
	go func() {
		select {
		case <-b:
			giveUp()
			listened <- true
		case <-doing.Done():
			listened <- false
		}
	}()
	err := do(doing)
	giveUp()
	if rang := <-listened; rang {
		b.Ring()
		if ctx.Err() == nil {
			return nil
		}
	}
	return err
}
