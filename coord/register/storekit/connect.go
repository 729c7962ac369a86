package storekit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
)

// Connect opens a store and returns a client on it. If the client requires more than unopened promises, which is a store
// with the same settings that has not been opened, Connect refuses before open is called, and likewise if the TTL is too long
// for it. It asks once more when the store is open, and knows how its server is set up. Closing the client closes the store.
func Connect[S register.Store](ctx context.Context, p Package, s Settings, unopened S, open func(context.Context) (S, error)) (*coord.Client, error) {
	if err := p.checkStrength(unopened, s); err != nil {
		return nil, err
	}
	if err := register.CheckTTL(unopened, s.TTL, s.Longest); err != nil {
		return nil, p.Invalid("%w", err)
	}
	store, err := open(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.checkStrength(store, s); err != nil {
		store.Close()
		return nil, err
	}
	return coord.NewClient(s.Driver(store), s.Client...), nil
}

func (p Package) checkStrength(store register.Store, s Settings) error {
	if err := coord.CheckStrength(register.Strength(store), s.Client...); err != nil {
		return fmt.Errorf("turnwise: %s: connect: %w", p, err)
	}
	return nil
}

// TakeSteps takes the steps by which a store is opened, one after the other. Each is tried again until it succeeds, unless its
// error is driver.ErrDenied, driver.ErrMissing or coord.ErrInvalid. The tries end with ctx, or after driverkit.ConnectFor if ctx has no
// deadline. The error names the address, which must be free of secrets, and has a class: if it is no other, it is
// coord.ErrUnavailable.
func (p Package) TakeSteps(ctx context.Context, address string, log *slog.Logger, steps ...func(context.Context) error) error {
	ctx, cancel := driverkit.BoundConnect(ctx)
	defer cancel()
	for _, step := range steps {
		if err := p.insist(ctx, address, log, step); err != nil {
			return p.Unopened(address, err)
		}
	}
	return nil
}

func (p Package) insist(ctx context.Context, address string, log *slog.Logger, step func(context.Context) error) error {
	var before error
	for tries := 0; ; tries++ {
		err := step(ctx)
		if err == nil || IsLasting(err) {
			return err
		}
		if isOver(ctx) { // then this try was cut short, and its error says little
			if before != nil && before.Error() != err.Error() {
				err = fmt.Errorf("%w; before that: %w", err, before)
			}
			return withEnd(ctx, err)
		}
		if before == nil || before.Error() != err.Error() {
			log.Warn(string(p)+": not ready, trying on", "address", address, "err", OneLine(err))
			before = err
		}
		if driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			return withEnd(ctx, err)
		}
	}
}

// isOver reports whether ctx has ended. A connection may have noticed its deadline first.
func isOver(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// ErrClosed is what calls of a closed store return.
var ErrClosed = errors.New("the store is closed")
