package driverkit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/turnwise/turnwise/coord/driver"
)

func stalled(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestTheNewsIsEnoughWhenTheServiceDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Doubt(t.Context(), NewLife(t.Context()), stalled); err != driver.ErrRemoved {
			t.Fatalf("got %v", err)
		}
	})
}

func TestAnAnswerCounts(t *testing.T) {
	for _, want := range []error{nil, driver.ErrSessionEnded, driver.ErrRemoved} {
		if err := Doubt(t.Context(), NewLife(t.Context()), func(context.Context) error { return want }); err != want {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
}

func TestTheEndOfTheSessionIsNoRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := NewLife(t.Context())
		err := Doubt(t.Context(), life, func(ctx context.Context) error {
			life.End(errors.New("expired"))
			stalled(ctx)
			return driver.ErrSessionEnded
		})
		if err != driver.ErrSessionEnded {
			t.Fatalf("got %v", err)
		}
	})
}
