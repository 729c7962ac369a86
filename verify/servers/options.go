package servers

import (
	"strings"
	"time"
)

// An Option changes how a cluster is started. Options that a service has no use for are ignored by it.
type Option func(*config)

// config holds plain values only: what it prints as is the key under which a shared cluster is found.
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
	flags     []string
	old       bool
	tls       bool
	links     bool
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

// Members sets the number of servers that form the cluster; 1 unless told.
func Members(n int) Option { return func(c *config) { c.members = n } }

// Dir has the servers keep their data and logs in a new folder inside one of the caller's choice, which is not removed,
// instead of one from [Scratch].
func Dir(path string) Option { return func(c *config) { c.dir = path } }

// Shared has every test of one binary that asks for it with the same options use the same cluster. It is
// started by the first of them, and ended by [Main]. For tests that leave the servers as they found them.
func Shared() Option { return func(c *config) { c.shared = true } }

// Fsync has the servers wait for the disk at every write, as they do in production, if [Dir] is on one. Without it a
// write is still safe from a kill -9, since the page cache outlives the process.
func Fsync() Option { return func(c *config) { c.fsync = true } }

// Tick sets ZooKeeper's tick, 100 ms unless told. Sessions may last from 2 ticks to 1,000 s, and a server ends
// them with the precision of one tick.
func Tick(d time.Duration) Option { return func(c *config) { c.tick = d } }

// ElectionTimeout sets etcd's election timeout, 200 ms unless told; the heartbeat is a tenth of it. The
// shortest lease is one and a half of it, rounded up to a second, and never less than etcd's own minimum.
func ElectionTimeout(d time.Duration) Option { return func(c *config) { c.election = d } }

// Heap sets the limit of ZooKeeper's heap, as Java writes it: "256m" unless told, which is ample for a line of 10,000.
func Heap(limit string) Option { return func(c *config) { c.heap = limit } }

// JavaOptions adds options of the Java virtual machine, such as -Dzookeeper.ssl.keyStore.location=….
func JavaOptions(options ...string) Option {
	return func(c *config) { c.java = append(c.java, options...) }
}

// Config adds lines to ZooKeeper's zoo.cfg. They come last, and the last one of a key rules.
//
// In them, as in JavaOptions and Flags, {name}, {dir} and {port:x} stand for the member's name, its folder, and a
// port of its own by the name of x: secureClientPort={port:secure}, which [Member.Port] then tells.
func Config(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

// Flags adds etcd's command-line flags. They come last, and the last one of a name rules.
func Flags(flags ...string) Option {
	return func(c *config) { c.flags = append(c.flags, flags...) }
}

// TLS has the clients speak TLS and show a certificate; [Cluster.TLSConfig] holds theirs. The authority and the
// certificates are made at the start.
func TLS() Option { return func(c *config) { c.tls = true } }

// OldEtcd starts the oldest etcd that turnwise speaks to instead of the newest: 3.4.
func OldEtcd() Option { return func(c *config) { c.old = true } }

// Verbose has the servers log more than warnings: "info" or "debug".
func Verbose(level string) Option { return func(c *config) { c.verbosity = strings.ToLower(level) } }
