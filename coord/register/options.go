package register

import (
	"log/slog"
	"time"
)

// Option sets up a Driver. A nil Option changes nothing.
type Option func(*config)

type config struct {
	ttl time.Duration
	log *slog.Logger
}

// The TTL of a session, and the shortest that can be set.
const (
	DefaultTTL = 10 * time.Second
	MinTTL     = 500 * time.Millisecond
)

// WithTTL sets how long a session lasts if nothing is heard of its process: it is the time that it takes until somebody
// else gets the turn of one that died. It is 10 s without this option, or with zero or less, and never less than
// MinTTL. A store that knows by itself whether a process lives has no use for it.
func WithTTL(ttl time.Duration) Option {
	return func(c *config) {
		if ttl > 0 {
			c.ttl = max(ttl, MinTTL)
		}
	}
}

// WithLogger sets where the driver tells of what an operator may want to know. It says nothing without this option.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.log = log
		}
	}
}
