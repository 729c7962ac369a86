package driverkit

import (
	"context"
	"errors"
	"testing"
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
