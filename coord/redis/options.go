package redis

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// pkg begins the errors of this package.
const pkg storekit.Package = "redis"

// Option sets up a store, here and in package quorum. A nil Option changes nothing.
type Option func(*config)

type config = server.Config

const defaultRoot = "turnwise:"

// WithRoot sets what all keys and channels begin with. The default is "turnwise:", and for a quorum "turnwise-quorum:". A
// colon is added if prefix does not end with one. Redis grants rights by prefix, so each root can have users of its own.
func WithRoot(prefix string) Option { return func(c *config) { c.Root = prefix } }

// WithTTL sets how long a session lasts when nothing is heard from its process: how soon a dead holder's line goes on, and
// how long a live holder may be cut off. The default is 10 s. Less than half a second is refused, and so is more
// than a day. It is for Connect and New.
func WithTTL(ttl time.Duration) Option { return func(c *config) { c.TTL = ttl } }

// WithLongestTTL sets the longest TTL that anybody uses with this root: 10 s by default. After the server
// may have forgotten who holds, nobody is granted anything for that long, so that nobody enters beside a holder that does not
// know yet. All must say the same: a longer TTL is refused, and so is whoever says something else than those before. To change it,
// stop all, and remove the key "settings" under the root; of a quorum, empty all servers instead. It is for Connect and New, here and in package quorum.
func WithLongestTTL(longest time.Duration) Option { return func(c *config) { c.Longest = longest } }

// WithClient passes options on to the coord.Client that Connect makes. Open and New refuse it.
func WithClient(opts ...coord.Option) Option { return func(c *config) { c.AddClient(opts) } }

// WithLogger sets where the store logs trouble that it rides out, and what it could not check. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.Log = l } }

// WithTLS encrypts the connections, as an address that begins with rediss:// does, but with the caller's configuration. An
// empty ServerName is taken from each address. It is for Connect and Open.
func WithTLS(cfg *tls.Config) Option { return func(c *config) { c.TLS = cfg } }

// WithCleartextPassword lets a password go to another machine over connections that are not encrypted, or to a server whose
// certificate nobody checks: anybody who can listen on the way, or answer in the server's place, then has it. The logger gets
// a warning. It is for Connect and Open.
func WithCleartextPassword() Option { return func(c *config) { c.Cleartext = true } }
