package simulation

import (
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// storeClock is the clock of a store. It may be set.
type storeClock struct {
	began time.Time
	rate  float64 // how much faster it runs

	mu   sync.Mutex
	sets []clockSet
}

type clockSet struct {
	at time.Time
	by time.Duration
}

func (c *storeClock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sets = append(c.sets, clockSet{time.Now(), by})
}

// says is what the clock said at a time. It needs mu.
func (c *storeClock) says(at time.Time) time.Duration {
	says := time.Hour*24 + time.Duration(float64(at.Sub(c.began))*c.rate)
	for _, s := range c.sets {
		if !at.Before(s.at) {
			says += s.by
		}
	}
	return says
}

// date tells the age of what was read just now, of which the true age is known, and what the clock says.
func (c *storeClock) date(it register.Item) register.Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	says := c.says(now)
	it.Age = max(0, says-c.says(now.Add(-it.Age)))
	if it.Clock != 0 { // else it is not told
		it.Clock = says
	}
	return it
}
