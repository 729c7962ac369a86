package doubt

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/turnwise/turnwise/coord/driver"
)

func stalled(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func never() bool { return false }

func TestTheNewsIsEnoughWhenTheServiceDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Ask(t.Context(), never, stalled); err != driver.ErrRemoved {
			t.Fatalf("got %v", err)
		}
	})
}

func TestAnAnswerCounts(t *testing.T) {
	for _, want := range []error{nil, driver.ErrSessionEnded, driver.ErrRemoved} {
		if err := Ask(t.Context(), never, func(context.Context) error { return want }); err != want {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
}

func TestTheEndOfTheSessionIsNoRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Ask(t.Context(), func() bool { return true }, func(ctx context.Context) error {
			stalled(ctx)
			return driver.ErrSessionEnded
		})
		if err != driver.ErrSessionEnded {
			t.Fatalf("got %v", err)
		}
	})
}
