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

// The TTL of a session by default, and the shortest that can be set.
const (
	DefaultTTL = 10 * time.Second
	MinTTL     = 500 * time.Millisecond
)

// WithTTL sets how long a session lasts if nothing is heard from its process. That is how long it takes until somebody else
// gets the turn of a process that died. It is 10 s without this option or with zero or less, and never less than MinTTL. A
// store that knows by itself whether a process lives has no use for it.
func WithTTL(ttl time.Duration) Option {
	return func(c *config) {
		if ttl > 0 {
			c.ttl = max(ttl, MinTTL)
		}
	}
}

// WithLogger sets where the driver logs what an operator may want to know. Without this option nothing is logged.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.log = log
		}
	}
}
