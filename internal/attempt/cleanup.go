package attempt

import (
	"sync"
	"testing"
)

// Cleaner is a testing.TB that cleans up when told to.
type Cleaner struct {
	testing.TB
	once sync.Once
	all  cleanups
}

func (c *Cleaner) Cleanup(f func()) {
	c.once.Do(func() { c.TB.Cleanup(c.CleanUp) }) // if the test ends before that
	c.all.add(f)
}

// CleanUp calls what was handed to Cleanup, the last first.
func (c *Cleaner) CleanUp() {
	for f := c.all.last(); f != nil; f = c.all.last() {
		f()
	}
}

// cleanups are what is still to be called.
type cleanups struct {
	mu  sync.Mutex
	all []func()
}

func (c *cleanups) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, f)
}

// last takes out the one that was added last. It returns nil if there is none.
func (c *cleanups) last() (f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.all); n > 0 {
		f, c.all = c.all[n-1], c.all[:n-1]
	}
	return f
}
