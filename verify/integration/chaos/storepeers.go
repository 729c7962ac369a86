package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncdriver "github.com/go-redsync/redsync/v4/redis"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// The locks that people use on stores have no tokens.

// brief bounds every request of a peer but the one for its turn.
const brief = 5 * time.Second

// unaware is the answer of a lock that never tells of its loss.
func unaware() bool { return true }

// locks is an errand for a peer's lock in a line of the peer's name.
func locks(peer string, acquire func(context.Context) (*claim, error)) errand {
	return errand{line: peer, kind: always("lock"), acquire: func(ctx context.Context, _ string) (*claim, error) { return acquire(ctx) }}
}

// redsyncPeer tries for as long as it takes, renews its lock, and believes in it until its validity ends.
func redsyncPeer(w *worker) []errand {
	var pools []redsyncdriver.Pool
	for _, addr := range w.job.Servers {
		pools = append(pools, redsyncredis.NewPool(goredis.NewClient(&goredis.Options{Addr: addr})))
	}
	sync := redsync.New(pools...)
	return []errand{locks("redsync", func(ctx context.Context) (*claim, error) {
		m := sync.NewMutex("peer/redsync", redsync.WithExpiry(w.job.Session), redsync.WithTries(1<<20))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		var until atomic.Pointer[time.Time]
		renewed := func() { t := m.Until(); until.Store(&t) }
		renewed()
		renewing, stop := context.WithCancel(context.Background())
		go func() {
			for ticks := time.Tick(w.job.Session / 3); ; {
				select {
				case <-renewing.Done():
					return
				case <-ticks:
				}
				if ok, err := m.ExtendContext(renewing); ok && err == nil {
					renewed()
				}
			}
		}()
		return &claim{
			valid: func() bool { return time.Now().Before(*until.Load()) },
			release: func() error {
				stop()
				ctx, cancel := context.WithTimeout(context.Background(), brief)
				defer cancel()
				_, err := m.UnlockContext(ctx)
				return err
			},
		}, nil
	})}
}

// redisPeers adds rueidislock, as its documentation shows it for one Redis. It tells of a loss by a context.
func redisPeers(w *worker) []errand {
	var locker rueidislock.Locker
	return append(redsyncPeer(w), locks("rueidislock", func(ctx context.Context) (_ *claim, err error) {
		if locker == nil { // it dials at once, and the server may be down just now
			if locker, err = rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: rueidis.ClientOption{InitAddress: w.job.Servers},
				KeyMajority:  1,
				KeyValidity:  w.job.Session,
			}); err != nil {
				return nil, err
			}
		}
		held, release, err := locker.WithContext(ctx, "peer")
		if err != nil {
			return nil, err
		}
		return &claim{
			valid:   func() bool { return held.Err() == nil },
			release: func() error { release(); return nil },
		}, nil
	}))
}

// backed is the connection to PostgreSQL that a line's locks belong to. One that has failed is not used again.
type backed struct {
	addr string
	conn *pgx.Conn
}

// do runs f on the connection; what f has locked stays locked on it.
func (b *backed) do(ctx context.Context, f func(*pgx.Conn) error) error {
	if b.conn == nil {
		dial, cancel := context.WithTimeout(ctx, brief)
		defer cancel()
		conn, err := pgx.Connect(dial, fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", b.addr))
		if err != nil {
			return err
		}
		b.conn = conn
	}
	err := f(b.conn)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), brief)
		defer cancel()
		_ = b.conn.Close(ctx)
		b.conn = nil
	}
	return err
}

func (b *backed) exec(ctx context.Context, statement string, args ...any) error {
	return b.do(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, statement, args...)
		return err
	})
}

// claim returns a claim to what has been locked. The statement then unlocks it.
func (b *backed) claim(then string, args ...any) *claim {
	return &claim{valid: unaware, release: func() error {
		ctx, cancel := context.WithTimeout(context.Background(), brief)
		defer cancel()
		return b.exec(ctx, then, args...)
	}}
}

func postgresPeers(w *worker) []errand {
	advisory, row := &backed{addr: w.job.Servers[0]}, &backed{addr: w.job.Servers[0]}
	made := false
	return []errand{
		locks("pg_advisory_lock", func(ctx context.Context) (*claim, error) {
			if err := advisory.exec(ctx, "SELECT pg_advisory_lock(4711)"); err != nil {
				return nil, err
			}
			return advisory.claim("SELECT pg_advisory_unlock(4711)"), nil
		}),
		locks("SELECT FOR UPDATE", func(ctx context.Context) (*claim, error) {
			if !made {
				if err := row.exec(ctx, "CREATE TABLE IF NOT EXISTS peers (name text PRIMARY KEY)"); err != nil {
					return nil, err // two that make it at once disturb each other
				}
				if err := row.exec(ctx, "INSERT INTO peers VALUES ('peer') ON CONFLICT DO NOTHING"); err != nil {
					return nil, err
				}
				made = true
			}
			if err := row.exec(ctx, "BEGIN"); err != nil {
				return nil, err
			}
			if err := row.exec(ctx, "SELECT FROM peers WHERE name = 'peer' FOR UPDATE"); err != nil {
				return nil, err
			}
			return row.claim("COMMIT"), nil
		}),
	}
}

func mysqlPeers(w *worker) []errand {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.Timeout = "root", "tcp", w.job.Servers[0], brief
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		panic(err)
	}
	return []errand{locks("GET_LOCK", func(ctx context.Context) (*claim, error) {
		conn, err := db.Conn(ctx) // the lock belongs to it
		if err != nil {
			return nil, err
		}
		giveUp := func() {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // so that nobody gets it out of the pool
			_ = conn.Close()
		}
		ask := func(ctx context.Context, statement string) error {
			var got sql.NullBool
			if err := conn.QueryRowContext(ctx, statement).Scan(&got); err != nil {
				return err
			}
			if !got.Bool {
				return fmt.Errorf("%s: %v", strings.ToLower(statement), got)
			}
			return nil
		}
		if err := ask(ctx, "SELECT GET_LOCK('peer', 1000)"); err != nil {
			giveUp()
			return nil, err
		}
		return &claim{valid: unaware, release: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), brief)
			defer cancel()
			if err := ask(ctx, "SELECT RELEASE_LOCK('peer')"); err != nil {
				giveUp()
				return err
			}
			return conn.Close()
		}}, nil
	})}
}
