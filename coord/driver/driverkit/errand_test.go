package driverkit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// joined is what the tests deliver.
type joined struct{ taken, wanted bool }

func TestWhatIsDeliveredIsNotTakenBack(t *testing.T) {
	l := NewLife(t.Context())
	defer l.End(errExpired)
	v, err := Deliver(t.Context(), l,
		func(func() bool) (*joined, error) { return new(joined), nil },
		func(j *joined) { j.taken = true })
	if err != nil || v == nil || v.taken {
		t.Fatalf("%+v, %v", v, err)
	}
}

func TestWhatComesTooLateIsTakenBack(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc, l *Life){
		"the caller has gone":    func(cancel context.CancelFunc, _ *Life) { cancel() },
		"the session has ended":  func(_ context.CancelFunc, l *Life) { l.End(errExpired) },
		"the caller never waits": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLife(t.Context())
				defer l.End(errExpired)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if end == nil {
					cancel()
				} else {
					time.AfterFunc(time.Second, func() { end(cancel, l) })
				}
				j := new(joined)
				v, err := Deliver(ctx, l, func(wanted func() bool) (*joined, error) {
					time.Sleep(2 * time.Second)
					j.wanted = wanted()
					return j, nil
				}, func(j *joined) { j.taken = true })
				if err == nil || v != nil {
					t.Fatalf("it was delivered: %+v", v)
				}
				if l.Over() != errors.Is(err, driver.ErrSessionEnded) {
					t.Fatalf("the error is %v", err)
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if !j.taken || j.wanted {
					t.Fatalf("it was not taken back: %+v", j)
				}
			})
		})
	}
}

func TestAFailureIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLife(t.Context())
		defer l.End(errExpired)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Deliver(ctx, l, func(func() bool) (int, error) {
			time.Sleep(time.Second)
			return 0, errors.New("denied")
		}, func(int) { t.Error("there was nothing to take back") })
		if err != context.Canceled {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
	})
}

func always(error) bool { return true }

func TestADepartureGoesOnUntilTheNodeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLife(t.Context())
		defer l.End(errExpired)
		tries := 0
		err := UntilGone(t.Context(), l, func(context.Context) error {
			if tries++; tries < 5 {
				return errors.New("no answer")
			}
			return nil
		}, always)
		if err != nil || tries != 5 {
			t.Fatalf("%v after %d tries", err, tries)
		}
	})
}

func TestADepartureGoesOnWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLife(t.Context())
		defer l.End(errExpired)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var gone atomic.Bool
		back := time.Now().Add(time.Minute)
		err := UntilGone(ctx, l, func(context.Context) error {
			gone.Store(time.Now().After(back))
			if !gone.Load() {
				return errors.New("no answer")
			}
			return nil
		}, always)
		if err != context.DeadlineExceeded {
			t.Fatalf("it says %v", err)
		}
		if time.Sleep(2 * time.Minute); !gone.Load() {
			t.Fatal("it gave up")
		}
	})
}

func TestWhatIsRefusedIsSaidAtOnceAndTriedAgainSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLife(t.Context())
		denied := errors.New("denied")
		var tries atomic.Int64
		began := time.Now()
		err := UntilGone(t.Context(), l, func(context.Context) error { tries.Add(1); return denied }, func(error) bool { return false })
		if err != denied || time.Since(began) > time.Second {
			t.Fatalf("it says %v after %v", err, time.Since(began))
		}
		before := tries.Load()
		if time.Sleep(time.Minute); tries.Load() < before+60 || tries.Load() > before+180 {
			t.Fatalf("%d tries in a minute", tries.Load()-before)
		}
		l.End(errExpired)
		before = tries.Load()
		if time.Sleep(time.Minute); tries.Load() != before {
			t.Fatal("it goes on after the end of the session")
		}
	})
}

func TestWhatIsOnItsWayIsWaitedForBeforeALifeIsEnded(t *testing.T) {
	for name, begin := range map[string]func(l *Life, work func()){
		"an errand": func(l *Life, work func()) { l.Errand(work) },
		"a join that is given up": func(l *Life, work func()) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, _ = Deliver(ctx, l, func(func() bool) (*joined, error) {
				time.Sleep(time.Millisecond) // so that it comes after it was given up
				return new(joined), nil
			}, func(*joined) { work() })
		},
		"a departure": func(l *Life, work func()) {
			go UntilGone(context.Background(), l, func(context.Context) error { work(); return nil }, always)
		},
		"a departure without its caller": func(l *Life, work func()) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = UntilGone(ctx, l, func(context.Context) error { work(); return nil }, always)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLife(context.Background())
				defer l.End(errExpired)
				l.AwaitErrands(context.Background()) // there is nothing to wait for
				var done atomic.Bool
				begin(l, func() {
					time.Sleep(time.Second)
					done.Store(true)
				})
				synctest.Wait()
				soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				if l.AwaitErrands(soon); done.Load() || soon.Err() == nil {
					t.Error("it did not wait as long as its context lasts")
				}
				if l.AwaitErrands(context.Background()); !done.Load() {
					t.Error("it did not wait")
				}
			})
		})
	}
}

func TestNothingIsWaitedForAtTheEndOfALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLife(context.Background())
		l.Errand(func() { time.Sleep(time.Hour) })
		began := time.Now()
		time.AfterFunc(time.Second, func() { l.End(errExpired) })
		if l.AwaitErrands(context.Background()); time.Since(began) != time.Second {
			t.Errorf("it took %v", time.Since(began))
		}
		if l.Errand(func() {}) {
			t.Error("an errand was begun after the end")
		}
		if l.Rest(context.Background()); l.errands != 0 {
			t.Errorf("%d errands are said to be under way", l.errands)
		}
	})
}
