// Package attempt plays tests that may fail, without failing the test around them. It is for the suites that drivers
// and stores pass, and for the tests of those suites.
package attempt

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// PatienceVariable is set in the environment of tests that are to fail. It says how long they wait for what must
// happen, but may take time on a busy machine.
const PatienceVariable = "TURNWISE_PATIENCE"

// Patience returns what PatienceVariable says, or 20 s.
func Patience() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(PatienceVariable)); err == nil && d > 0 {
		return d
	}
	return 20 * time.Second
}

// tries is how often Insist plays what was held up.
const tries = 5

// Insist plays f, and t fails as f does. But if f fails and the machine meanwhile gave this process no time for as long
// as allowed at a stretch, that says nothing about what is under test: then f is played again, a few times, unless it
// is to fail.
func Insist(t testing.TB, allowed time.Duration, f func(t testing.TB)) {
	t.Helper()
	toFail := os.Getenv(PatienceVariable) != ""
	for left := tries; ; left-- {
		a := Play(t, f)
		if a.Failed() && a.heldUp >= allowed && left > 1 && !toFail {
			t.Logf("the machine stood still for %v, so this is played again: %q", a.heldUp, a.failures)
			continue
		}
		for _, failure := range a.failures {
			t.Error(failure)
		}
		if a.skipped != "" {
			t.Skip(a.skipped)
		}
		return
	}
}

// Attempt is the testing.TB that Play gives, and what came of it.
type Attempt struct {
	testing.TB

	// heldUp is the longest stretch in which this process got no time.
	heldUp time.Duration

	mu       sync.Mutex
	failures []string
	skipped  string
	cleanups cleanups
	helpers  map[string]bool // names of functions
}

// Play runs f as a test would, including its clean-up.
func Play(t testing.TB, f func(t testing.TB)) *Attempt {
	a := &Attempt{TB: t, helpers: map[string]bool{}}
	watched, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		a.watch(over)
	}()
	a.runUntilExit(func() { f(a) })
	for f := a.cleanups.last(); f != nil; f = a.cleanups.last() {
		a.runUntilExit(f)
	}
	close(over)
	<-watched
	return a
}

// runUntilExit waits for f, which may call runtime.Goexit as FailNow does.
func (a *Attempt) runUntilExit(f func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		f()
	}()
	<-over
}

// watch measures how late a short sleep ends.
func (a *Attempt) watch(over <-chan struct{}) {
	const nap = 5 * time.Millisecond
	tick := time.NewTimer(nap)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-over:
			return
		}
		now := time.Now()
		a.heldUp = max(a.heldUp, now.Sub(last)-nap)
		last = now
		tick.Reset(nap)
	}
}

// Failures returns the messages of the failures, each with its place.
func (a *Attempt) Failures() []string { return a.failures }

// WhySkipped returns the reason for the skip, or "" if the attempt was not skipped.
func (a *Attempt) WhySkipped() string { return a.skipped }

func (a *Attempt) Skipped() bool { return a.skipped != "" }

func (a *Attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.failures) > 0
}

func (a *Attempt) Cleanup(f func()) { a.cleanups.add(f) }

func (a *Attempt) Helper() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pc, _, _, ok := runtime.Caller(1); ok {
		a.helpers[runtime.FuncForPC(pc).Name()] = true
	}
}

func (a *Attempt) fail(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, a.place()+what)
}

func (a *Attempt) failNow(what string) {
	a.fail(what)
	runtime.Goexit()
}

// place is where a failure was reported, outside of helpers. It needs mu.
func (a *Attempt) place() string {
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	_, own, _, _ := runtime.Caller(0)
	for {
		f, more := frames.Next()
		if f.File != own && !a.helpers[f.Function] {
			return fmt.Sprintf("%s:%d: ", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}

func (a *Attempt) skip(why string) {
	a.mu.Lock()
	a.skipped = why
	a.mu.Unlock()
	runtime.Goexit()
}

func (a *Attempt) Fail()                             { a.fail("failed") }
func (a *Attempt) Error(args ...any)                 { a.fail(fmt.Sprint(args...)) }
func (a *Attempt) Errorf(format string, args ...any) { a.fail(fmt.Sprintf(format, args...)) }
func (a *Attempt) FailNow()                          { a.failNow("failed") }
func (a *Attempt) Fatal(args ...any)                 { a.failNow(fmt.Sprint(args...)) }
func (a *Attempt) Fatalf(format string, args ...any) { a.failNow(fmt.Sprintf(format, args...)) }
func (a *Attempt) Skip(args ...any)                  { a.skip(fmt.Sprint(args...)) }
func (a *Attempt) Skipf(format string, args ...any)  { a.skip(fmt.Sprintf(format, args...)) }
func (a *Attempt) SkipNow()                          { a.skip("skipped") }
