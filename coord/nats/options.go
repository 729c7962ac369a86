package nats

import (
	"crypto/tls"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// pkg begins the errors of this package.
const pkg storekit.Package = "nats"

// Option sets up a store, and what stands on it. A nil Option changes nothing.
type Option func(*config)

type config struct {
	storekit.Settings
	root        string
	tls         *tls.Config
	cleartext   bool
	credentials string
	monitor     string
}

const defaultRoot = "turnwise"

// WithRoot sets the name of the stream, which is also what the subjects begin with: 1 to 40 letters, digits, hyphens and
// underscores. The default is "turnwise". Only processes with the same root meet in a line.
func WithRoot(root string) Option { return func(c *config) { c.root = root } }

// WithMonitor names the server's monitoring port, as in http://127.0.0.1:8222 (http_port in its configuration). There the server
// says whether it waits for its disk with each write (sync_interval: always), which it tells its clients nowhere. Then a restart
// forgets nothing, and that is what the store promises: [Open] refuses a server that does not say so, and looks again after each
// restart of the server. All must say the same: with it or without, whoever says otherwise than those before is refused. Over http://
// to another machine, whoever is on the way can say so in the server's place.
func WithMonitor(url string) Option { return func(c *config) { c.monitor = url } }

// WithTTL sets how long a session lasts when nothing is heard from its process: how soon a dead holder's line goes on, and
// how long a live holder may be cut off. The default is 10 s. Less than half a second is refused, and so is more
// than a day. It is for [Connect] and [New].
func WithTTL(ttl time.Duration) Option { return func(c *config) { c.TTL = ttl } }

// WithLongestTTL sets the longest TTL that anybody uses with this root: 10 s by default. After the server may have forgotten who
// holds, nobody is granted anything for that long, so that nobody enters beside a holder that does not know yet. All must say
// the same: a longer TTL is refused, and so is whoever says something else than those before. To change it, stop all, and
// delete the stream. It is for [Connect] and [New].
func WithLongestTTL(longest time.Duration) Option { return func(c *config) { c.Longest = longest } }

// WithClient passes options on to the coord.Client that [Connect] makes. [Open] and [New] refuse it.
func WithClient(opts ...coord.Option) Option { return func(c *config) { c.AddClient(opts) } }

// WithLogger sets where the store logs trouble that it rides out. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.Log = l } }

// WithTLS encrypts the connection, as an address that begins with tls:// does, but with the caller's configuration. It is for
// [Connect] and [Open].
func WithTLS(cfg *tls.Config) Option { return func(c *config) { c.tls = cfg } }

// WithCleartextPassword lets a password or a token go to another machine over a connection that is not encrypted, or to a server
// whose certificate nobody checks: anybody who can listen on the way, or answer in the server's place, then has it. The logger
// gets a warning. It is for [Connect] and [Open].
func WithCleartextPassword() Option { return func(c *config) { c.cleartext = true } }

// WithCredentials names a file with a JWT and the seed of its key, as `nsc` writes it. The seed is not sent. It is for [Connect]
// and [Open].
func WithCredentials(path string) Option { return func(c *config) { c.credentials = path } }

func configure(way storekit.Way, opts []Option) (config, error) {
	c := config{root: defaultRoot}
	if err := storekit.Configure(pkg, way, &c, &c.Settings, opts); err != nil {
		return c, err
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if c.root == "" || len(c.root) > 40 || strings.Trim(c.root, allowed) != "" {
		return c, pkg.Invalid("WithRoot(%q): write 1 to 40 letters, digits, hyphens and underscores", c.root)
	}
	if c.monitor != "" {
		u, err := url.Parse(c.monitor)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" {
			return c, pkg.Invalid("WithMonitor: write the URL of the server's monitoring port, such as http://127.0.0.1:8222")
		}
		c.monitor = strings.TrimSuffix(c.monitor, "/")
	}
	return c, nil
}
