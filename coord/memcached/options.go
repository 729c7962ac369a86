package memcached

import (
	"log/slog"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// pkg begins the errors of this package.
const pkg storekit.Package = "memcached"

// Option sets up a store, and what stands on it. A nil Option changes nothing.
type Option func(*config)

type config struct {
	storekit.Settings
	root      string
	conns     int
	evictions bool
}

const (
	defaultRoot  = "turnwise"
	defaultConns = 4
)

// WithRoot sets what all keys begin with: 1 to 100 letters, digits, hyphens and underscores. The default is "turnwise". Only
// processes with the same root meet in a line.
func WithRoot(root string) Option { return func(c *config) { c.root = root } }

// WithConnections sets how many connections a store may have. The default is 4. A connection is used for the time of one
// request; waiting in a line uses none. There is one more on which the session is renewed.
func WithConnections(n int) Option { return func(c *config) { c.conns = min(max(n, 1), 1000) } }

// WithEvictions accepts a server that was started without -M. When that is full it throws a line away without a word, and
// then two hold at once. Use it only for locks that merely save work.
func WithEvictions() Option { return func(c *config) { c.evictions = true } }

// WithTTL sets how long a session lasts if nothing is heard from its process: how soon a dead holder's line goes on, and how
// long a live holder may be cut off. The default is 10 s. Less than half a second is refused, and so is more than a day. It
// is for [Connect].
func WithTTL(ttl time.Duration) Option { return func(c *config) { c.TTL = ttl } }

// WithLongestTTL sets the longest TTL that anybody uses with this root: 10 s by default. After the server
// may have forgotten who holds, nobody is granted anything for that long, so that nobody enters beside a holder that does not
// know yet. All must say the same: a longer TTL is refused, and so is whoever says something else than those before. To change it,
// stop all, and remove the item "settings" of the root, or restart the server. It is for [Connect].
func WithLongestTTL(longest time.Duration) Option { return func(c *config) { c.Longest = longest } }

// WithClient passes options on to the coord.Client that [Connect] makes. [Open] refuses it.
func WithClient(opts ...coord.Option) Option { return func(c *config) { c.AddClient(opts) } }

// WithLogger sets where the store logs trouble that it rides out, and what is unsafe in the server's settings. Without it
// nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.Log = l } }

func configure(way storekit.Way, opts []Option) (config, error) {
	c := config{root: defaultRoot, conns: defaultConns}
	if err := storekit.Configure(pkg, way, &c, &c.Settings, opts); err != nil {
		return c, err
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if len(c.root) == 0 || len(c.root) > 100 || strings.Trim(c.root, allowed) != "" {
		return c, pkg.Invalid("WithRoot(%q): write 1 to 100 letters, digits, hyphens and underscores", c.root)
	}
	return c, nil
}
