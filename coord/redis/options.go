package redis

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
)

// Option sets up a store. A nil Option changes nothing.
type Option func(*config)

type config struct {
	root      string
	ttl       time.Duration
	log       *slog.Logger
	cleartext bool
	tls       *tls.Config
	client    []coord.Option
}

const defaultRoot = "turnwise:"

// WithRoot sets what all keys and channels begin with. The default is "turnwise:", and for a quorum "turnwise-quorum:". A
// colon is added if prefix does not end with one. Redis grants rights by prefix, so each root can have users of its own.
func WithRoot(prefix string) Option { return func(c *config) { c.root = prefix } }

// WithTTL sets how long a session lasts when nothing is heard from its process: how soon a dead holder's line goes on, and
// how long a live holder may be cut off. The default is 10 s. Less than half a second is refused. It is for Connect,
// ConnectQuorum and New.
func WithTTL(ttl time.Duration) Option { return func(c *config) { c.ttl = ttl } }

// WithClient passes options on to the coord.Client that Connect and ConnectQuorum make.
func WithClient(opts ...coord.Option) Option {
	return func(c *config) { c.client = append(c.client, opts...) }
}

// WithLogger sets where the store logs trouble that it rides out, and what it could not check. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithTLS encrypts the connections, as an address that begins with rediss:// does, but with the caller's configuration. An
// empty ServerName is taken from each address. It has no effect on [New], whose client is the caller's.
func WithTLS(cfg *tls.Config) Option { return func(c *config) { c.tls = cfg } }

// WithCleartextPassword lets a password go to another machine over connections that are not encrypted: anybody who can
// listen on the way then has it.
func WithCleartextPassword() Option { return func(c *config) { c.cleartext = true } }

func configure(opts []Option) (config, error) {
	c := config{root: defaultRoot, ttl: register.DefaultTTL}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if !strings.HasSuffix(c.root, ":") {
		c.root += ":"
	}
	switch {
	case c.root == ":":
		return c, invalid("WithRoot(\"\"): the root must not be empty, lest keys mix with what others keep")
	case c.ttl < register.MinTTL:
		return c, invalid("WithTTL(%v): at least %v; a bare number counts nanoseconds", c.ttl, register.MinTTL)
	case !utf8.ValidString(c.root) || strings.IndexFunc(c.root, unicode.IsControl) >= 0:
		return c, invalid("WithRoot(%q): it must be valid UTF-8 without control characters", c.root)
	}
	return c, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("turnwise: redis: %w: "+format, append([]any{coord.ErrInvalid}, args...)...)
}
