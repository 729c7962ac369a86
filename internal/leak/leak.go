// Package leak finds goroutines that stay, for the suites that drivers and stores pass.
package leak

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Goroutines returns the stacks of all goroutines, by their ids.
func Goroutines() map[string]string {
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

// Left returns the stacks of the goroutines that were not there before and stay for longer than patience.
func Left(before map[string]string, patience time.Duration) (left []string) {
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		left = left[:0]
		for id, stack := range Goroutines() {
			if _, was := before[id]; !was && !strings.Contains(stack, "leak.Goroutines(") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// Growth returns how many goroutines there are before and after n rounds of f, when those that end have had time to.
func Growth(n int, f func()) (before, after int) {
	before = len(Goroutines())
	for range n {
		f()
	}
	for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if after = len(Goroutines()); after <= before+n/10 {
			break
		}
	}
	return before, after
}

// Cleaner is a testing.TB that cleans up when told to.
type Cleaner struct {
	testing.TB
	mu  sync.Mutex
	all []func()
}

func (c *Cleaner) Cleanup(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.TB.Cleanup(c.CleanUp) // if the test ends before that
	}
	c.all = append(c.all, f)
}

// CleanUp calls what was handed to Cleanup, the last first.
func (c *Cleaner) CleanUp() {
	for {
		c.mu.Lock()
		if len(c.all) == 0 {
			c.mu.Unlock()
			return
		}
		f := c.all[len(c.all)-1]
		c.all = c.all[:len(c.all)-1]
		c.mu.Unlock()
		f()
	}
}
