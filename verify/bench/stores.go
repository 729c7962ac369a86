package main

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncdriver "github.com/go-redsync/redsync/v4/redis"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/verify/servers"
)

// Services that people have anyway. To turnwise each is a store; its address is a URL.
const (
	Files      Service = "files"
	Redis      Service = "redis"
	RedisThree Service = "three redis"
	Postgres   Service = "postgres"
	MariaDB    Service = "mariadb"
	Memcached  Service = "memcached"
	NATS       Service = "nats"
)

var stores = []Service{Files, Redis, RedisThree, Postgres, MariaDB, Memcached, NATS}

// storeContestants are turnwise on each store, and what people use there instead.
func storeContestants() []*Contestant {
	var all []*Contestant
	for _, s := range stores {
		all = append(all, &Contestant{Name: "turnwise", Service: s, Kinds: []Kind{Lock, Read, Write, Permit}, Ours: true,
			Place: func(line string) string { return line }, Open: openByURL})
		for _, peer := range storePeers[s] {
			all = append(all, &Contestant{Name: peer.name, Service: s, Kinds: []Kind{Lock}, Open: peer.open})
		}
	}
	return all
}

type storePeer struct {
	name string
	open func(context.Context, Setting) (Client, error)
}

var storePeers = map[Service][]storePeer{
	Files:      {{"flock", openFlock}},
	Redis:      {{"redsync", openRedsync}, {"rueidislock", openRueidislock}},
	RedisThree: {{"redsync", openRedsync}},
	Postgres:   {{"pg_advisory_lock", openAdvisory}, {"SELECT FOR UPDATE", openForUpdate}},
	MariaDB:    {{"GET_LOCK", openGetLock}},
}

func openByURL(ctx context.Context, s Setting) (Client, error) {
	c, err := backend.Open(ctx, lasting(s.Addr, s.Timeout), backend.WithTTL(s.Timeout), backend.WithClient(watching(s)))
	if err != nil {
		return nil, err
	}
	return ours(c), nil
}

// store starts a service and looks at it through a client of our own.
func (s *stage) store(ctx context.Context, name Service, dir string) (*service, error) {
	start := func(f func(context.Context, string, ...servers.Option) (*servers.Cluster, error), opts ...servers.Option) (*service, error) {
		cluster, err := f(ctx, dir, append(s.options(), opts...)...)
		if err != nil {
			return nil, err
		}
		return &service{name: cluster.Name(), addr: cluster.URL(), close: cluster.Close}, nil
	}
	var made *service
	var err error
	switch name {
	case Files:
		made = &service{name: "files", addr: "file://" + filepath.Join(dir, "files"), close: func() {}}
	case Redis:
		made, err = start(servers.StartRedis)
	case RedisThree:
		var cluster *servers.Cluster
		cluster, err = servers.StartRedis(ctx, filepath.Join(dir, "three"), servers.Members(3), servers.AppendOnly("always"))
		if err == nil {
			made = &service{name: cluster.Name(), addr: "redis://" + strings.Join(cluster.Addrs(), ","), close: cluster.Close}
		}
	case Postgres:
		made, err = start(servers.StartPostgres, servers.Config("max_connections = 300"))
	case MariaDB:
		made, err = start(servers.StartMariaDB, servers.Config("max_connections=300"))
	case Memcached:
		if made, err = start(servers.StartMemcached, servers.Flags("-M")); err == nil {
			made.addr = "memcached://" + made.addr
		}
	case NATS:
		made, err = start(servers.StartNATS)
	}
	if err != nil {
		return nil, err
	}
	looker, err := backend.Open(ctx, lasting(made.addr, sessions))
	if err != nil {
		made.close()
		return nil, err
	}
	made.standing = func(ctx context.Context, line string) (int, error) { return inLine(ctx, looker, line) }
	stop := made.close
	made.close = func() { _ = looker.Close(); stop() }
	return made, nil
}

// lasting is an address of a store on which sessions may last for so long. Up to 10 s they may anyway.
func lasting(addr string, ttl time.Duration) string {
	if strings.HasPrefix(addr, "file:") || ttl <= 10*time.Second {
		return addr
	}
	separator := "?"
	if strings.Contains(addr, "?") {
		separator = "&"
	}
	return addr + separator + "longest-session=" + ttl.String()
}

func inLine(ctx context.Context, c *coord.Client, line string) (int, error) {
	nodes, err := c.Line(ctx, line)
	return len(nodes), err
}

func hostsOf(addr string) []string { return strings.Split(strings.TrimPrefix(addr, "redis://"), ",") }

// openRedsync keeps redsync's default polling, 50 to 250 ms, but lets it try for as long as it takes.
func openRedsync(_ context.Context, s Setting) (Client, error) {
	var clients []*goredis.Client
	var pools []redsyncdriver.Pool
	for _, host := range hostsOf(s.Addr) {
		client := goredis.NewClient(&goredis.Options{Addr: host})
		clients, pools = append(clients, client), append(pools, redsyncredis.NewPool(client))
	}
	sync := redsync.New(pools...)
	return alone{
		acquire: func(ctx context.Context, w Want) (func() error, error) {
			m := sync.NewMutex("redsync/"+w.Line, redsync.WithExpiry(10*time.Second), redsync.WithTries(1<<20))
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return func() error {
				_, err := m.UnlockContext(context.WithoutCancel(ctx))
				return err
			}, nil
		},
		close: func() {
			for _, c := range clients {
				c.Close()
			}
		},
	}, nil
}

func openRueidislock(_ context.Context, s Setting) (Client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: hostsOf(s.Addr)},
		KeyMajority:  1, // as many as there are servers
		KeyPrefix:    "rueidislock",
	})
	if err != nil {
		return nil, err
	}
	return alone{
		acquire: func(ctx context.Context, w Want) (func() error, error) {
			_, release, err := locker.WithContext(ctx, w.Line)
			if err != nil {
				return nil, err
			}
			return func() error { release(); return nil }, nil
		},
		close: locker.Close,
	}, nil
}

// connected is a client of a database. Such locks belong to a connection, so each worker has its own.
type connected[C any] struct {
	open    func(context.Context, Setting) (C, error)
	acquire func(context.Context, C, Want) (func() error, error)
	close   func(C)

	setting Setting
	conn    C
}

func (c connected[C]) begin(ctx context.Context, s Setting) (Client, error) {
	var err error
	c.setting = s
	c.conn, err = c.open(ctx, s)
	return c, err
}

func (c connected[C]) Acquire(ctx context.Context, w Want) (func() error, error) {
	return c.acquire(ctx, c.conn, w)
}
func (c connected[C]) Another(ctx context.Context) (Client, error) { return c.begin(ctx, c.setting) }
func (c connected[C]) Close()                                      { c.close(c.conn) }

func dialPostgres(ctx context.Context, s Setting) (*pgx.Conn, error) { return pgx.Connect(ctx, s.Addr) }
func hangUp(c *pgx.Conn)                                             { _ = c.Close(context.Background()) }

func openAdvisory(ctx context.Context, s Setting) (Client, error) {
	return connected[*pgx.Conn]{open: dialPostgres, close: hangUp, acquire: func(ctx context.Context, c *pgx.Conn, w Want) (func() error, error) {
		if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", w.Line); err != nil {
			return nil, err
		}
		return func() error {
			_, err := c.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtextextended($1, 0))", w.Line)
			return err
		}, nil
	}}.begin(ctx, s)
}

// openForUpdate has a row for each line; a transaction locks it.
func openForUpdate(ctx context.Context, s Setting) (Client, error) {
	known := rowsOf(s.Addr)
	return connected[*pgx.Conn]{open: dialPostgres, close: hangUp, acquire: func(ctx context.Context, c *pgx.Conn, w Want) (func() error, error) {
		if err := known.insert(ctx, c, w.Line); err != nil {
			return nil, err
		}
		tx, err := c.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, "SELECT FROM bench_rows WHERE name = $1 FOR UPDATE", w.Line); err != nil {
			return nil, err
		}
		return func() error { return tx.Commit(context.WithoutCancel(ctx)) }, nil
	}}.begin(ctx, s)
}

// rows are the rows that have been inserted on one server.
type rows struct {
	mu   sync.Mutex
	have map[string]bool
}

var allRows sync.Map // by address

func rowsOf(addr string) *rows {
	r, _ := allRows.LoadOrStore(addr, &rows{have: map[string]bool{}})
	return r.(*rows)
}

func (r *rows) insert(ctx context.Context, c *pgx.Conn, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.have) == 0 {
		if _, err := c.Exec(ctx, "CREATE TABLE IF NOT EXISTS bench_rows (name text PRIMARY KEY)"); err != nil {
			return err
		}
	}
	if r.have[name] {
		return nil
	}
	_, err := c.Exec(ctx, "INSERT INTO bench_rows VALUES ($1) ON CONFLICT DO NOTHING", name)
	r.have[name] = err == nil
	return err
}

func openGetLock(ctx context.Context, s Setting) (Client, error) {
	return connected[*sql.DB]{open: dialMySQL, close: func(db *sql.DB) { db.Close() },
		acquire: func(ctx context.Context, db *sql.DB, w Want) (func() error, error) {
			if _, err := db.ExecContext(ctx, "SELECT GET_LOCK(?, 1000)", w.Line); err != nil {
				return nil, err
			}
			return func() error {
				_, err := db.ExecContext(context.WithoutCancel(ctx), "SELECT RELEASE_LOCK(?)", w.Line)
				return err
			}, nil
		}}.begin(ctx, s)
}

// dialMySQL returns a pool of one connection.
func dialMySQL(ctx context.Context, s Setting) (*sql.DB, error) {
	u, err := url.Parse(s.Addr)
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = u.User.Username(), "tcp", u.Host, strings.Trim(u.Path, "/")
	cfg.InterpolateParams = true // else each statement is prepared, in a round trip of its own
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, db.PingContext(ctx)
}
