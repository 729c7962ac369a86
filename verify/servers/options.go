package servers

import (
	"strings"
	"time"
)

// An Option changes how a cluster is started. A service ignores options it has no use for.
type Option func(*config)

// config holds plain values only: its printed form is the key under which a shared cluster is found.
type config struct {
	members   int
	dir       string
	shared    bool
	fsync     bool
	tick      time.Duration
	election  time.Duration
	heap      string
	java      []string
	lines     []string
	own       map[int][]string // lines of one member, by its index
	flags     []string
	old       bool
	tls       bool
	links     bool
	clocks    bool
	password  string
	append    string // Redis's appendfsync; empty: no append-only file
	primary   string // the address of the server that this one follows
	verbosity string
}

func configure(opts []Option) config {
	cfg := config{
		members:   1,
		tick:      100 * time.Millisecond,
		election:  200 * time.Millisecond,
		heap:      "256m",
		verbosity: "warn",
	}
	for _, opt := range opts {
		opt(&cfg)
	}
	return cfg
}

// Members sets the number of servers that form the cluster. The default is 1. Servers of Redis, PostgreSQL, MariaDB,
// memcached and NATS form none: they know nothing of one another.
func Members(n int) Option { return func(c *config) { c.members = n } }

// Dir makes the servers keep their data and logs in a new folder inside path, which is not removed, instead of in one
// from [Scratch].
func Dir(path string) Option { return func(c *config) { c.dir = path } }

// Shared makes all tests of one binary that ask for it with the same options use the same cluster. The first of them
// starts it, and [Main] ends it. It is for tests that leave the servers as they found them.
func Shared() Option { return func(c *config) { c.shared = true } }

// Fsync makes the servers wait for the disk at every write, as they do in production, if [Dir] is on one. Without it a
// write still survives a kill -9, since the page cache outlives the process. For Redis it is [AppendOnly] that counts. NATS does
// not wait as it comes; with Fsync it has sync_interval: always.
func Fsync() Option { return func(c *config) { c.fsync = true } }

// Tick sets ZooKeeper's tick. The default is 100 ms. Sessions may last from 2 ticks to 1,000 s, and a server ends them
// to within one tick.
func Tick(d time.Duration) Option { return func(c *config) { c.tick = d } }

// ElectionTimeout sets etcd's election timeout. The default is 200 ms; the heartbeat is a tenth of it. The shortest
// lease is one and a half times it, rounded up to a second, and never less than etcd's own minimum.
func ElectionTimeout(d time.Duration) Option { return func(c *config) { c.election = d } }

// Heap sets the limit of ZooKeeper's heap, as Java writes it. The default is "256m", which is ample for a line of
// 10,000.
func Heap(limit string) Option { return func(c *config) { c.heap = limit } }

// JavaOptions adds options of the Java virtual machine, such as -Dzookeeper.ssl.keyStore.location=….
func JavaOptions(options ...string) Option {
	return func(c *config) { c.java = append(c.java, options...) }
}

// Config adds lines to the server's configuration: ZooKeeper's zoo.cfg, redis.conf, postgresql.conf, pgbouncer.ini,
// MariaDB's my.cnf or the configuration of NATS, such as "maxmemory-policy allkeys-lru" or "max_connections = 20". They come last, and the last line
// for a key wins.
//
// In them, as in JavaOptions and Flags, {name}, {dir} and {port:x} stand for the member's name, its folder, and a
// port of its own by the name of x: secureClientPort={port:secure}, which [Member.Port] then returns.
func Config(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

// ConfigOf adds lines to the configuration of the i-th member alone, counted from 0, after those of [Config].
func ConfigOf(i int, lines ...string) Option {
	return func(c *config) {
		if c.own == nil {
			c.own = map[int][]string{}
		}
		c.own[i] = append(c.own[i], lines...)
	}
}

// Flags adds command-line flags of etcd or memcached ("-M", "-m", "16"). They come last, and the last flag of a name
// wins.
func Flags(flags ...string) Option {
	return func(c *config) { c.flags = append(c.flags, flags...) }
}

// TLS makes clients speak TLS and show a certificate; [Cluster.TLSConfig] holds theirs. The authority and the
// certificates are made at the start.
func TLS() Option { return func(c *config) { c.tls = true } }

// OldEtcd starts the oldest etcd that turnwise speaks to instead of the newest: 3.4.
func OldEtcd() Option { return func(c *config) { c.old = true } }

// Verbose makes the servers log more than warnings: "info" or "debug".
func Verbose(level string) Option { return func(c *config) { c.verbosity = strings.ToLower(level) } }

// Password makes Redis, PostgreSQL, MariaDB and NATS ask for that password, which [Member.URL] contains. Without it they let in
// everybody on this machine.
func Password(p string) Option { return func(c *config) { c.password = p } }

// AppendOnly makes Redis keep its data in an append-only file, and says when that goes to the disk: "no", "everysec" or
// "always". Without it a Redis that ends forgets everything.
func AppendOnly(fsync string) Option { return func(c *config) { c.append = fsync } }

// ReplicaOf makes a Redis or PostgreSQL follow another one, which was started just before and has the same password.
func ReplicaOf(m *Member) Option { return func(c *config) { c.primary = m.Addr() } }
