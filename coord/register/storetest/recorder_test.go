package storetest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// recorder is a testing.TB that may fail without failing the test around it.
type recorder struct {
	testing.TB

	mu       sync.Mutex
	failures []string
	skipped  string
	cleanups []func()
}

// record runs f as a test would, including its clean-up.
func record(t testing.TB, f func(t testing.TB)) *recorder {
	r := &recorder{TB: t}
	over := make(chan struct{})
	go func() {
		defer close(over)
		f(r)
	}()
	<-over
	for {
		r.mu.Lock()
		if len(r.cleanups) == 0 {
			r.mu.Unlock()
			return r
		}
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		r.mu.Unlock()
		last()
	}
}

func (r *recorder) fail(msg string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, msg)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) skip(why string) {
	r.mu.Lock()
	r.skipped = why
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Helper()                         {}
func (r *recorder) Log(args ...any)                 {}
func (r *recorder) Logf(format string, args ...any) {}
func (r *recorder) Fail()                           { r.fail("failed") }
func (r *recorder) Error(args ...any)               { r.fail(fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, args ...any)    { r.fail(fmt.Sprintf(f, args...)) }
func (r *recorder) FailNow()                        { r.fail("failed"); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)               { r.fail(fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(f string, args ...any)    { r.fail(fmt.Sprintf(f, args...)); runtime.Goexit() }
func (r *recorder) Skip(args ...any)                { r.skip(fmt.Sprint(args...)) }
func (r *recorder) Skipf(f string, args ...any)     { r.skip(fmt.Sprintf(f, args...)) }
func (r *recorder) SkipNow()                        { r.skip("skipped") }
