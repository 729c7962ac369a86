package storecheck

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// Count has clients count in one register, each through a store, while the server is disturbed five times. Nothing is lost
// or done twice: a count whose answer was lost is not repeated, and the sum is known up to those.
func Count(t *testing.T, disturb func(), clients ...register.Store) {
	t.Helper()
	var stop atomic.Bool
	var counted, doubtful atomic.Int64
	var all sync.WaitGroup
	for _, s := range clients {
		all.Go(func() {
			cur := register.Item{Key: "n"}
			for !stop.Load() {
				var n int
				fmt.Sscan(string(cur.Value), &n)
				w := register.Swap{Key: "n", Old: cur.Version, Next: register.NewVersion(), Value: fmt.Append(nil, n+1)}
				it, err := s.Swap(Within(t, 2*time.Second), w)
				switch {
				case err == nil:
					cur = it
					counted.Add(1)
					continue
				case errors.Is(err, register.ErrConflict):
					cur = it
					continue
				case errors.Is(err, register.ErrForgot):
					t.Error(err)
					return
				}
				// It is open. What is swapped next is swapped from what it left or did not touch. So a number is given to only one
				// client.
				doubtful.Add(1)
				for {
					if cur, err = s.Read(Within(t, 2*time.Second), "n"); err == nil {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	for range 5 {
		time.Sleep(100 * time.Millisecond)
		disturb()
	}
	stop.Store(true)
	all.Wait()
	var n int64
	fmt.Sscan(string(Read(t, clients[0], "n").Value), &n)
	if n < counted.Load() || n > counted.Load()+doubtful.Load() {
		t.Errorf("the register says %d; %d were counted, and %d may have been", n, counted.Load(), doubtful.Load())
	}
	t.Logf("counted %d, %d of them in doubt", n, doubtful.Load())
}

// Restarts checks that a store notices a restart if and only if the server may have forgotten by it. It remembers nothing from
// before the restart in either case: it may have been started with an older disk, while who holds by what was on the newer one
// is cut off.
func Restarts(t *testing.T, s register.Store, safe bool, restart func()) {
	t.Helper()
	before, err := s.Memory(Within(t, 10*time.Second))
	if err != nil {
		t.Fatalf("the memory is %+v, %v", before, err)
	}
	at := time.Now()
	restart()
	Eventually(t, "it answers", func() bool {
		_, err = s.Read(Within(t, time.Second), "k")
		return err == nil || errors.Is(err, register.ErrForgot)
	})
	if forgot := errors.Is(err, register.ErrForgot); forgot == safe {
		t.Errorf("it reads: %v", err)
	}
	after, err := s.Memory(Within(t, 10*time.Second))
	if err != nil || (after.ID == before.ID) != safe || after.For > time.Since(at) {
		t.Errorf("the memory is %+v, %v, %v after a restart; it was %+v", after, err, time.Since(at), before)
	}
}

// SideBySide checks that two clients whose drivers share what belongs to the user disturb each other in nothing, neither
// while both run nor when one is closed. elsewhere is a client that shares nothing. Sessions last for ttl.
func SideBySide(t *testing.T, ttl time.Duration, one, other, elsewhere *coord.Client) {
	t.Helper()
	handsOver(t, one, other)
	handsOver(t, other, one)

	held, err := mutex.New(other, "kept").Lock(Within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := mutex.New(one, "kept").Lock(Within(t, 20*time.Second))
		waits <- err
	}()
	time.Sleep(ttl / 4)
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, coord.ErrClosed) {
		t.Errorf("who waited in the one that was closed: %v", err)
	}
	time.Sleep(2 * ttl) // the other is renewed
	if err := held.Err(); err != nil {
		t.Errorf("a hold of the other one: %v", err)
	}
	if err := held.Release(); err != nil {
		t.Error(err)
	}
	handsOver(t, elsewhere, other) // it still works
	handsOver(t, other, elsewhere)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// handsOver has one client hold a lock, and the other one wait for it.
func handsOver(t *testing.T, from, to *coord.Client) {
	t.Helper()
	h, err := mutex.New(from, "orders").Lock(Within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan error, 1)
	go func() {
		next, err := mutex.New(to, "orders").Lock(Within(t, 20*time.Second))
		if err == nil {
			err = next.Release()
		}
		granted <- err
	}()
	time.Sleep(100 * time.Millisecond) // it waits
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	if err := <-granted; err != nil {
		t.Errorf("who waited: %v", err)
	}
}
