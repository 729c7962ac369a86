package driverkit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

var errExpired = errors.New("expired")

func TestTheFirstReasonForTheEndCounts(t *testing.T) {
	l := NewLife(t.Context())
	if l.Over() || l.Why() != nil {
		t.Fatal("it is over before it has begun")
	}
	if !l.End(errExpired) || l.End(errors.New("closed")) {
		t.Fatal("there is one end")
	}
	if err := l.Why(); !errors.Is(err, driver.ErrSessionEnded) || !errors.Is(err, errExpired) {
		t.Fatalf("it ended because of %v", err)
	}
	if err := l.Verdict(context.Canceled); !errors.Is(err, driver.ErrSessionEnded) {
		t.Fatalf("a call that the end has cut short says %v", err)
	}
	if err := l.Verdict(nil); err != nil {
		t.Fatalf("a call that has succeeded says %v", err)
	}
}

func TestNothingBeginsAfterTheEndAndRestWaitsForWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLife(t.Context())
		release := make(chan struct{})
		if !l.Go(func() { <-release }) {
			t.Fatal("nothing runs on a life that lasts")
		}
		l.End(errExpired)
		if l.Go(func() { t.Error("it runs after the end") }) {
			t.Fatal("it says that it runs after the end")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Rest(short); err != context.DeadlineExceeded {
			t.Fatalf("Rest did not wait: %v", err)
		}
		close(release)
		if err := l.Rest(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestGoroutinesAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLife(t.Context())
		defer l.End(errExpired)
		for range 3 {
			l.Go(func() {})
			synctest.Wait()
			if n := l.rest.Load(); n != 1 {
				t.Fatalf("%d goroutines have nothing to do", n)
			}
		}
		for range 3 * maxIdle {
			l.Go(func() { time.Sleep(time.Millisecond) })
		}
		time.Sleep(10 * time.Millisecond)
		if n := l.rest.Load(); n != maxIdle {
			t.Fatalf("%d goroutines have nothing to do, %d may", n, maxIdle)
		}
		time.Sleep(2 * lingerFor)
		if n := l.rest.Load(); n != 0 {
			t.Fatalf("%d goroutines linger on", n)
		}
	})
}

func TestABoundContextEndsWithEither(t *testing.T) {
	l := NewLife(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	first, unbind := l.Bind(ctx)
	defer unbind()
	cancel()
	if <-first.Done(); context.Cause(first) != context.Canceled {
		t.Fatalf("it ended because of %v", context.Cause(first))
	}
	second, unbind := l.Bind(t.Context())
	defer unbind()
	l.End(errExpired)
	if <-second.Done(); !errors.Is(context.Cause(second), errExpired) {
		t.Fatalf("it ended because of %v", context.Cause(second))
	}
}

func TestALateAnswerMovesNoDeadlineBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDeadline()
		if time.Sleep(time.Millisecond); !d.Passed() {
			t.Fatal("nothing has been heard, and yet there is time")
		}
		sent := time.Now()
		d.Renewed(sent, 10*time.Second)
		d.Renewed(sent.Add(-time.Second), 10*time.Second)
		if got := d.Time().Sub(sent); got != 10*time.Second {
			t.Fatalf("it is %v after the sending", got)
		}
		if time.Sleep(10*time.Second - 1); d.Passed() {
			t.Fatal("it has passed too early")
		}
		if time.Sleep(time.Nanosecond); !d.Passed() {
			t.Fatal("it has not passed")
		}
	})
}

func TestAMaximumOfManyIsTheGreatest(t *testing.T) {
	var m Max
	var all sync.WaitGroup
	for i := range int64(1000) {
		all.Go(func() { m.Saw(i) })
	}
	all.Wait()
	if m.Load() != 999 {
		t.Fatal(m.Load())
	}
}
