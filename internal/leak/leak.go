// Package leak finds goroutines and open files that stay, for the suites that drivers and stores pass.
package leak

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/internal/attempt"
)

// goroutines returns the stacks of all goroutines, by their ids.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		if n := runtime.Stack(buf, true); n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := map[string]string{}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		all[id] = stack
	}
	return all
}

// staying returns the stacks of the goroutines that were not there before and are still there after patience.
func staying(before map[string]string, patience time.Duration) (left []string) {
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		left = left[:0]
		for id, stack := range goroutines() {
			// Who rests between two errands of a life that goes on, such as a janitor's, is no leak: those of a life that is over go.
			rests := strings.Contains(stack, "driverkit.(*Life).next(")
			if _, was := before[id]; !was && !rests && !strings.Contains(stack, "leak.goroutines(") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// files returns what this process has open, such as connections, where the system tells.
func files() map[string]bool {
	const folder = "/proc/self/fd/"
	all := map[string]bool{}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if leads, err := os.Readlink(folder + e.Name()); err == nil { // else it was the folder itself
			all[e.Name()+" "+leads] = true
		}
	}
	return all
}

// stayingOpen returns one of the files that were not open before and are still open after patience.
func stayingOpen(before map[string]bool, patience time.Duration) (left string) {
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		left = ""
		for f := range files() {
			if !before[f] {
				left = f
			}
		}
		if left == "" {
			return ""
		}
	}
	return left
}

// None runs f as a test of its own, including its clean-up, and fails t if goroutines or open files that were not there before
// stay for longer than patience.
func None(t testing.TB, patience time.Duration, f func(t testing.TB)) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector closes what nobody has closed
	before, open := goroutines(), files()
	inner := &attempt.Cleaner{TB: t}
	f(inner)
	inner.CleanUp()
	if left := stayingOpen(open, patience); left != "" {
		t.Errorf("a file stays open: %s", left)
	}
	if left := staying(before, patience); len(left) > 0 {
		t.Errorf("%d goroutines stay, such as\n%s", len(left), left[0])
	}
}

// Growth returns how many goroutines there are before and after n rounds of f. Those that end are given the time to do
// so.
func Growth(n int, f func()) (before, after int) {
	before = len(goroutines())
	for range n {
		f()
	}
	for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if after = len(goroutines()); after <= before+n/10 {
			break
		}
	}
	return before, after
}
