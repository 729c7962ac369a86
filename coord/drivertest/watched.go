package drivertest

import (
	"context"
	"sync"

	"github.com/turnwise/turnwise/coord/driver"
)

// watched is a driver that remembers the session opened last, for scenarios that use it through a coord.Client.
type watched struct {
	driver.Driver
	mu      sync.Mutex
	session driver.Session
}

func (w *watched) Open(ctx context.Context) (driver.Session, error) {
	s, err := w.Driver.Open(ctx)
	if err == nil {
		w.mu.Lock()
		w.session = s
		w.mu.Unlock()
	}
	return s, err
}

func (w *watched) last() driver.Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session
}
