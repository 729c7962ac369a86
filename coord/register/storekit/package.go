package storekit

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Package is the name of a store's package. Its errors begin with it.
type Package string

// Invalid returns the error for an option or an address that no service could make sense of: coord.ErrInvalid.
func (p Package) Invalid(format string, args ...any) error {
	return fmt.Errorf("turnwise: %s: %w: "+format, append([]any{p, coord.ErrInvalid}, args...)...)
}

// Failed says what was tried when err came, in one line. It keeps the error of a ctx that has ended in the chain. It returns
// nil if err is nil, and register.ErrConflict if err is that: a conflict is an answer, and frequent.
func (p Package) Failed(ctx context.Context, err error, format string, args ...any) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, register.ErrConflict):
		return register.ErrConflict
	}
	return OneLine(fmt.Errorf("%s: %s: %w", p, fmt.Sprintf(format, args...), withEnd(ctx, err)))
}

// Unopened says what could not be opened, in one line. An error that has no class yet means that the service is out of reach.
func (p Package) Unopened(address string, err error) error {
	return OneLine(fmt.Errorf("turnwise: %s: open %s: %w", p, address, Classed(err)))
}

// Classed returns an error of opening a store that has a class: if it has none, it is coord.ErrUnavailable.
func Classed(err error) error {
	if IsLasting(err) {
		return err
	}
	return fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
}

// IsLasting reports whether an error of opening a store has a class that says that trying again would not help.
func IsLasting(err error) bool {
	return driver.IsLasting(err) || errors.Is(err, coord.ErrInvalid)
}

// withEnd puts the error of a ctx that has ended into the chain of err.
func withEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}
