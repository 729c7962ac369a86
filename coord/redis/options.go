package redis

import (
	"fmt"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Option sets up a store.
type Option func(*config)

type config struct {
	root      string
	log       *slog.Logger
	cleartext bool
}

const defaultRoot = "turnwise:"

// WithRoot sets what all keys and channels begin with. The default is "turnwise:". A colon is added if it does not end
// with one. Rights in Redis are by prefix, so each root can have users of its own.
func WithRoot(prefix string) Option { return func(c *config) { c.root = prefix } }

// WithLogger logs what is ridden out, and what could not be checked. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithCleartextPassword lets a password go to another machine over connections that are not encrypted: whoever can
// listen on the way has it then.
func WithCleartextPassword() Option { return func(c *config) { c.cleartext = true } }

func configure(opts []Option) (config, error) {
	c := config{root: defaultRoot}
	for _, o := range opts {
		o(&c)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if !strings.HasSuffix(c.root, ":") {
		c.root += ":"
	}
	switch {
	case c.root == ":":
		return c, fmt.Errorf("turnwise: redis: WithRoot(\"\"): the root must not be empty, lest keys mix with what others keep")
	case !utf8.ValidString(c.root) || strings.IndexFunc(c.root, unicode.IsControl) >= 0:
		return c, fmt.Errorf("turnwise: redis: WithRoot(%q): it must be valid UTF-8 without control characters", c.root)
	}
	return c, nil
}
