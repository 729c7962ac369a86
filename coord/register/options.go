package register

import (
	"log/slog"
	"time"
)

// Option sets up a Driver. A nil Option changes nothing.
type Option func(*config)

type config struct {
	ttl, longest time.Duration
	log          *slog.Logger
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

// WithLongestTTL sets the longest TTL that anybody uses who shares the store: 10 s without this option or with zero or less,
// and never less than MinTTL. When a store has forgotten who holds, nobody is granted anything for that long, and nothing else
// keeps the next one from entering beside somebody who still believes in a hold. A store that has forgotten cannot say how
// long that is. So all who share it must say the same: whoever uses a longer TTL is refused, and whoever says something else
// than those who came before.
//
// It changes nothing for a store that promises nothing after a restart, or that knows by itself whether a process lives.
func WithLongestTTL(longest time.Duration) Option {
	return func(c *config) {
		if longest > 0 {
			c.longest = max(longest, MinTTL)
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
