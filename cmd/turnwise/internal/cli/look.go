package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

// showAfter is how long a wait may last before it is shown.
const showAfter = 200 * time.Millisecond

// endless is longer than any hold on a service with a TTL is sure to last.
const endless = 30 * 24 * time.Hour

// recovery returns for how much longer the service lets nobody in, since it may have forgotten who holds.
func recovery(c *coord.Client) time.Duration {
	if r, ok := c.Driver().(driver.Recovering); ok {
		return r.Recovery()
	}
	return 0
}

func recovers(to *backend.Service, left time.Duration) string {
	return fmt.Sprintf("%s may have forgotten who holds, or is new: it lets nobody in for another %v", to, left.Round(time.Second/10))
}

// interruptible returns a context for a command that only looks. A signal ends it; the cause is the exit code for that
// signal.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		defer signal.Stop(caught)
		select {
		case s := <-caught:
			cancel(fail(codeSignal+int(s.(syscall.Signal)), "%w", errSilent))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// unlessInterrupted returns err, or the exit code for the signal that has ended ctx.
func unlessInterrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
