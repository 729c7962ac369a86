package storekit

import (
	"log/slog"
	"math"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
)

// Settings are what the user of any store may set. A store's own configuration embeds them.
type Settings struct {
	TTL           time.Duration  // of sessions
	Longest       time.Duration  // TTL that anybody uses who shares the store
	Log           *slog.Logger   // never nil after Configure
	Client        []coord.Option // of the client that Connect makes
	LongestAtOpen bool           // the store itself goes by Longest, so Open is told it as well; set before Configure
}

// Way is one of the ways into a store's package: what an option is given to.
type Way int

const (
	ToConnect Way = iota // from an address to a client
	ToOpen               // from an address to a store
	ToNew                // from the user's own connection to a driver
)

// unset is the TTL that nobody has set.
const unset = time.Duration(math.MinInt64)

// maxTTL is the longest TTL: nobody waits longer for a holder that has died, or after a store has forgotten.
const maxTTL = 24 * time.Hour

// Configure applies options to a configuration whose defaults are set, and checks the settings in it. A nil option changes
// nothing. Without a TTL it is register.DefaultTTL, and so is Longest if nobody sets that; without a logger nothing is logged. An
// option that would have no effect is refused: whoever gives one relies on it.
func Configure[C any, O ~func(*C)](p Package, way Way, c *C, s *Settings, opts []O) error {
	s.TTL, s.Longest = unset, unset
	for _, o := range opts {
		if o != nil {
			o(c)
		}
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case way != ToConnect && len(s.Client) > 0:
		return p.Invalid("WithClient is for Connect: pass these options to coord.NewClient")
	case way == ToOpen && s.TTL != unset:
		return p.Invalid("WithTTL is about sessions, and Open opens none: pass register.WithTTL to register.New")
	case way == ToOpen && s.Longest != unset && !s.LongestAtOpen:
		return p.Invalid("WithLongestTTL is about sessions, and Open opens none: pass register.WithLongestTTL to register.New")
	}
	for _, ttl := range []*time.Duration{&s.TTL, &s.Longest} {
		if *ttl == unset {
			*ttl = register.DefaultTTL
		}
	}
	if s.TTL < register.MinTTL || s.TTL > maxTTL {
		return p.Invalid("WithTTL(%v): it must be from %v to %v; a bare number counts nanoseconds", s.TTL, register.MinTTL, maxTTL)
	}
	if s.Longest < register.MinTTL || s.Longest > maxTTL {
		return p.Invalid("WithLongestTTL(%v): it must be from %v to %v; a bare number counts nanoseconds", s.Longest, register.MinTTL, maxTTL)
	}
	return nil
}

// AddClient adds to the options of the client that Connect makes.
func (s *Settings) AddClient(opts []coord.Option) { s.Client = append(s.Client, opts...) }

// Driver returns register's driver on a store.
func (s *Settings) Driver(store register.Store) *register.Driver {
	return register.New(store, register.WithTTL(s.TTL), register.WithLongestTTL(s.Longest), register.WithLogger(s.Log))
}
