package mysql

import (
	"log/slog"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// pkg begins the errors of this package.
const pkg storekit.Package = "mysql"

// Option sets up a store, and what stands on it. A nil Option changes nothing.
type Option func(*config)

type config struct {
	storekit.Settings
	tableName string
	conns     int
	cleartext bool
}

const (
	defaultTable = "turnwise_register"
	defaultConns = 4
)

// WithTable sets the table: a name in the database of the DSN, or "database.table". Only processes that use the same table
// meet in a line. The default is "turnwise_register".
func WithTable(name string) Option { return func(c *config) { c.tableName = name } }

// WithConnections sets how many connections a store may have. The default is 4. A connection is used for the time of one
// request; waiting in a line uses none. There is one more on which the session is renewed.
func WithConnections(n int) Option { return func(c *config) { c.conns = min(max(n, 1), 1000) } }

// WithCleartextPassword lets a password go to another machine over connections that are not encrypted, to a server whose
// certificate nobody checks, or to a socket in a directory to which everybody may write, such as /tmp: anybody who can listen
// on the way, or answer in the server's place, then has it, or enough to find it out. The logger gets a warning.
func WithCleartextPassword() Option { return func(c *config) { c.cleartext = true } }

// WithTTL sets how long a session lasts if nothing is heard from its process: how soon a dead holder's line goes on, and how
// long a live holder may be cut off. The default is 10 s. Less than half a second is refused, and so is more than a day. It
// is for [Connect].
func WithTTL(ttl time.Duration) Option { return func(c *config) { c.TTL = ttl } }

// WithLongestTTL sets the longest TTL that anybody uses with this table: 10 s by default. After the server
// may have forgotten who holds, nobody is granted anything for that long, so that nobody enters beside a holder that does not
// know yet. All must say the same: a longer TTL is refused, and so is whoever says something else than those before. To change it,
// stop all, and remove the row named "settings". It is for [Connect].
func WithLongestTTL(longest time.Duration) Option { return func(c *config) { c.Longest = longest } }

// WithClient passes options on to the coord.Client that [Connect] makes. [Open] refuses it.
func WithClient(opts ...coord.Option) Option { return func(c *config) { c.AddClient(opts) } }

// WithLogger sets where the store logs trouble that it rides out, and what is unsafe in the server's settings. Without it
// nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.Log = l } }

func configure(way storekit.Way, opts []Option) (c config, err error) {
	c = config{tableName: defaultTable, conns: defaultConns}
	if err := storekit.Configure(pkg, way, &c, &c.Settings, opts); err != nil {
		return c, err
	}
	_, err = tableOf(c.tableName)
	return c, err
}

// table is the name of a table, after that of its database if there is one.
type table []string

// tableOf splits the name of a table at its only dot.
func tableOf(name string) (table, error) {
	parts := strings.Split(name, ".")
	ok := len(parts) <= 2
	for _, part := range parts {
		ok = ok && part != "" && len(part) <= maxName && !strings.ContainsAny(part, "`?\x00") && strings.TrimSpace(part) == part
	}
	if !ok {
		return nil, pkg.Invalid("WithTable(%q): write table or database.table, each of 1 to %d bytes "+
			"without backquotes and question marks", name, maxName)
	}
	return parts, nil
}

// maxName is how long the server lets a name be.
const maxName = 64

func (t table) String() string { return strings.Join(t, ".") }

// names returns the parts of the name, as arguments of a statement.
func (t table) names() (args []any) {
	for _, name := range t {
		args = append(args, name)
	}
	return args
}

// quoted returns the name as SQL has it.
func (t table) quoted() string { return "`" + strings.Join(t, "`.`") + "`" }
