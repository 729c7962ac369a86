package postgres

import (
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// pkg begins the errors of this package.
const pkg storekit.Package = "postgres"

// Option sets up a store. A nil Option changes nothing.
type Option func(*config)

type config struct {
	storekit.Settings
	tableName string
	owner     string
	conns     int32
	listenURL string
	polling   bool
	cleartext bool
	asIs      bool // the user's own pool says how connections are made
}

const (
	defaultTable = "public.turnwise_register"
	defaultConns = 4
)

// WithTable sets the table: "schema.name", or a name in the schema public. Only processes that use the same table of the
// same database meet in a line, so search_path does not count. The default is "public.turnwise_register".
func WithTable(name string) Option { return func(c *config) { c.tableName = name } }

// WithOwner names one more role whose table is used. Whoever owns a table can attach code to it that runs with the rights of
// everybody who writes there. So a table is refused (coord.ErrDenied) unless it belongs to the client's own role, to the
// owner of the database, to a superuser, or to this role. The members of this role, and those of the others, are trusted as well.
func WithOwner(role string) Option { return func(c *config) { c.owner = role } }

// WithConnections sets how many connections a store may have besides the one that it listens on. The default is 4. A
// connection is used for the time of one request; waiting in a line uses none. There is one more on which the
// session is renewed.
func WithConnections(n int) Option { return func(c *config) { c.conns = int32(min(max(n, 1), 1000)) } }

// WithListenURL sets where to listen for notes, if that is not where the requests go. Name the primary itself if the
// requests go through a pooler in transaction mode, which loses notes.
func WithListenURL(url string) Option { return func(c *config) { c.listenURL = url } }

// WithPolling makes the store tell of nothing, so that waiters poll. It needs one connection less.
func WithPolling() Option { return func(c *config) { c.polling = true } }

// WithCleartextPassword lets a password go to another machine over connections that are not encrypted, to a server whose
// certificate nobody checks, or to a socket in a directory to which everybody may write, such as /tmp: anybody who can listen
// on the way, or answer in the server's place, then has it, or enough to find it out. The logger gets a warning.
func WithCleartextPassword() Option { return func(c *config) { c.cleartext = true } }

// WithLogger sets where the store logs trouble that it rides out, and what is unsafe in the server's settings. Without it
// nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.Log = l } }

// WithTTL sets how long a session lasts if nothing is heard from its process: how soon a dead holder's line goes on, and how
// long a live holder may be cut off. The default is 10 s. Less than half a second is refused, and so is more than a day. It
// is for [Connect] and [New].
func WithTTL(ttl time.Duration) Option { return func(c *config) { c.TTL = ttl } }

// WithLongestTTL sets the longest TTL that anybody uses with this table: 10 s by default. After the server
// may have forgotten who holds, nobody is granted anything for that long, so that nobody enters beside a holder that does not
// know yet. All must say the same: a longer TTL is refused, and so is whoever says something else than those before. To change it,
// stop all, and remove the row with the key "settings". It is for [Connect] and [New].
func WithLongestTTL(longest time.Duration) Option { return func(c *config) { c.Longest = longest } }

// WithClient passes options on to the coord.Client that [Connect] makes. [Open] and [New] refuse it.
func WithClient(opts ...coord.Option) Option { return func(c *config) { c.AddClient(opts) } }

func configure(way storekit.Way, opts []Option) (c config, err error) {
	c = config{tableName: defaultTable, conns: defaultConns}
	if err := storekit.Configure(pkg, way, &c, &c.Settings, opts); err != nil {
		return c, err
	}
	_, err = tableOf(c.tableName)
	return c, err
}

// maxName is how long PostgreSQL lets a name be: it cuts off the rest, and two names may become one.
const maxName = 63

// table is the name of a table, and that of its schema before it.
type table pgx.Identifier

// tableOf splits the name of a table at its only dot.
func tableOf(name string) (table, error) {
	schema, own, named := strings.Cut(name, ".")
	if !named {
		schema, own = "public", name
	}
	t := table{schema, own}
	for _, part := range t {
		if part == "" || len(part) > maxName || strings.ContainsAny(part, ".\x00\"$") {
			return nil, pkg.Invalid("WithTable(%q): write schema.table, each of 1 to %d bytes without quotes and dollars",
				name, maxName)
		}
	}
	return t, nil
}

func (t table) String() string { return strings.Join(t, ".") }

// quoted returns the name as a statement has it.
func (t table) quoted() string { return pgx.Identifier(t).Sanitize() }
