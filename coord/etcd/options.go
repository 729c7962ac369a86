package etcd

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/turnwise/turnwise/coord"
)

// Option sets up a driver, or with Connect a client. A nil Option changes nothing.
type Option func(*config)

type config struct {
	ttl    time.Duration
	root   *string
	names  Names
	tail   string
	log    *slog.Logger
	client []coord.Option

	cleartext bool
}

const defaultTTL = 10 * time.Second

// WithTTL sets how long the service keeps a session that it hears nothing from. That decides how soon the line goes on
// after a holder has died, and how long a live one may be cut off. The default is 10 s. etcd counts in seconds, so the TTL
// is rounded up. It never grants less than one and a half election timeouts, which is 2 s by default. Less than 1 ms is
// refused: WithTTL(30) is 30 ns, not 30 s. So is more than five minutes, since a new leader may go by a checkpoint of such a
// lease (--experimental-enable-lease-checkpoint) and end it too early.
func WithTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// WithRoot sets the prefix of all keys. The default is "turnwise/". A slash is added if it does not end with one.
// etcd grants permissions by prefix, so each root can have users of its own, unless it is within another: line x of root
// a/b is line b/x of root a.
func WithRoot(prefix string) Option { return func(c *config) { c.root = &prefix } }

// WithNames sets what contenders' keys look like: [Isolated], or [Stock] to share lines with other tools.
func WithNames(n Names) Option { return func(c *config) { c.names = n } }

// WithTrailingSlash makes the names of lines end with a slash at the service, for other tools that end theirs so, as
// concurrency.NewMutex(s, "my-lock/") does. It is for [Stock].
func WithTrailingSlash() Option { return func(c *config) { c.tail = "/" } }

// WithLogger logs the troubles that the driver copes with, such as failed renewals and broken streams, and its clean-ups.
// Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithCleartextPassword lets [Connect] send a password or a token over connections that are not encrypted, or to a server whose
// certificate nobody checks: anyone who can listen on the way, or answer in the server's place, then has it. The logger gets a
// warning.
func WithCleartextPassword() Option { return func(c *config) { c.cleartext = true } }

// WithClient passes options on to the coord.Client that Connect makes.
func WithClient(opts ...coord.Option) Option {
	return func(c *config) { c.client = append(c.client, opts...) }
}

func configure(opts []Option) (config, layout, error) {
	c := config{ttl: defaultTTL, log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	fail := func(format string, args ...any) (config, layout, error) {
		return config{}, layout{}, fmt.Errorf("turnwise: etcd: %w: "+format, append([]any{coord.ErrInvalid}, args...)...)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.names != Isolated && c.names != Stock:
		return fail("WithNames(%d): use Isolated or Stock", c.names)
	case c.tail != "" && c.names != Stock:
		return fail("WithTrailingSlash: it is for WithNames(Stock)")
	case c.ttl <= 0:
		return fail("WithTTL(%v): it must be positive; a few seconds are usual", c.ttl)
	case c.ttl < minTTL:
		return fail("WithTTL(%v): a bare number counts nanoseconds; write WithTTL(%d*time.Second)", c.ttl, c.ttl)
	case c.ttl > maxTTL:
		return fail("WithTTL(%v): at most %v: etcd may forget renewals of leases that last longer", c.ttl, maxTTL)
	}
	l := layout{root: c.rootOr(defaultRoot), names: c.names, tail: c.tail}
	if l.root != "" && !strings.HasSuffix(l.root, "/") {
		l.root += "/"
	}
	if !utf8.ValidString(l.root) || strings.IndexFunc(l.root, unicode.IsControl) >= 0 {
		return fail("WithRoot(%q): it must be valid UTF-8 without control characters", l.root)
	}
	if strings.Contains(l.root, "//") {
		return fail("WithRoot(%q): it must have no two slashes in a row, which end a line's name", l.root)
	}
	if l.root == "" && c.names == Isolated {
		return fail("WithRoot(%q): the root must not be empty, lest names mix with what others keep", l.root)
	}
	return c, l, nil
}

// rootOr returns the root that was asked for, or else the default; with stock names that is empty.
func (c *config) rootOr(usual string) string {
	switch {
	case c.root != nil:
		return *c.root
	case c.names == Stock:
		return ""
	}
	return usual
}

const (
	minTTL = time.Millisecond // a caller who asks for less has left out the unit

	// maxTTL is what a lease may last without checkpoints. With them, a new leader goes by what was left of it at some time
	// before, even if it has been renewed since (up to etcd 3.4.30 and 3.5.12; later, seldom), and no client can tell.
	maxTTL = 5 * time.Minute
)

// seconds returns the TTL as etcd wants it.
func (c config) seconds() int64 { return int64(math.Ceil(c.ttl.Seconds())) }
