package driverkit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

func TestWhatTakesLongIsGivenUpWhenTheBellRings(t *testing.T) {
	b := NewBell()
	began := make(chan struct{})
	go func() {
		<-began
		b.Ring()
	}()
	err := b.Unless(t.Context(), func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		t.Fatalf("giving up is no error: %v", err)
	}
	select {
	case <-b:
	default:
		t.Fatal("the bell is not to be heard any more")
	}
}

func TestWhatIsDoneInTimeIsTold(t *testing.T) {
	b, wrong := NewBell(), errors.New("wrong")
	if err := b.Unless(t.Context(), func(context.Context) error { return wrong }); err != wrong {
		t.Fatalf("got %v", err)
	}
	select {
	case <-b:
		t.Fatal("nobody rang")
	default:
	}
}

func TestTheEndOfTheCallersContextIsTold(t *testing.T) {
	b := NewBell()
	b.Ring()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Unless(ctx, func(ctx context.Context) error { return ctx.Err() }); err != context.Canceled {
		t.Fatalf("got %v", err)
	}
}

func TestPausesDoubleUpToHalfASecond(t *testing.T) {
	if Pause(0) != 10*time.Millisecond || Pause(1) != 20*time.Millisecond || Pause(Slowly) != 500*time.Millisecond || Pause(1000) != 500*time.Millisecond {
		t.Fatal(Pause(0), Pause(1), Pause(Slowly), Pause(1000))
	}
	for range 1000 {
		if d := Jitter(time.Second); d < 750*time.Millisecond || d >= 1250*time.Millisecond {
			t.Fatal(d)
		}
	}
	if Jitter(0) != 0 || Jitter(3) != 3 {
		t.Fatal("what is too short to share out stays")
	}
}
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

func TestWhoMayNotAskBelievesTheNews(t *testing.T) {
	refused := func(context.Context) error { return fmt.Errorf("read: %w", driver.ErrDenied) }
	if err := Doubt(t.Context(), NewLife(t.Context()), refused); err != driver.ErrRemoved {
		t.Errorf("it heard that its node is gone: %v", err)
	}
	if err := DoubtFor(t.Context(), NewLife(t.Context()), time.Minute, refused); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("it had but a hint: %v", err)
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

func TestRetriesGrowUntilOneHasLasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Retries
		for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			if got := r.Next(time.Second); got != want*time.Millisecond {
				t.Errorf("pause %d: %v, want %v", i, got, want*time.Millisecond)
			}
		}
		if got := r.Next(time.Minute); got != 100*time.Millisecond {
			t.Errorf("after a try that has lasted: %v", got)
		}
		began := time.Now()
		if err := r.Sleep(t.Context(), began); err != nil || time.Since(began) < 100*time.Millisecond || time.Since(began) >= 200*time.Millisecond {
			t.Errorf("it sleeps for %v, %v", time.Since(began), err)
		}
	})
}
