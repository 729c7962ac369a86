package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) Listen(ctx context.Context, name string, hear func([]byte)) (stop func(), err error) {
	if s.listener == nil {
		return nil, register.ErrMute
	}
	if _, err = s.known.Current(); err == nil {
		stop, err = s.listener.listen(ctx, name, hear)
	}
	return stop, s.table.failed(ctx, err, "listen to %q", name)
}

// toListen returns where to listen, which is where the requests go unless the user has said something else.
func (c *config) toListen(cfg *pgxpool.Config) (*pgxpool.Config, error) {
	if c.listenURL == "" {
		return cfg, nil
	}
	direct, err := pgxpool.ParseConfig(c.listenURL)
	if err != nil {
		return nil, storekit.OneLine(pkg.Invalid("WithListenURL: %w", wrongWith(err)))
	}
	if err := (&config{Settings: c.Settings, cleartext: c.cleartext}).checkPassword(direct.ConnConfig); err != nil {
		return nil, storekit.OneLine(fmt.Errorf("turnwise: %s: WithListenURL: %w", pkg, err))
	}
	named := *c
	named.asIs = false
	setUp(direct, named)
	return direct, nil
}

// beginListening listens and finds out whether notes come.
func (s *Store) beginListening(ctx context.Context, direct *pgxpool.Config) error {
	l := &listener{table: s.table, plain: s.plain, log: s.Log, known: s.known, topics: make(map[string]*topic),
		life: driverkit.NewLife(context.Background())}
	l.connect = func(ctx context.Context, known *memory) (*pgx.Conn, error) {
		own := direct.Copy()
		own.ConnConfig.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { l.hear(n.Channel, n.Payload) }
		return s.connectToListen(ctx, own, known)
	}
	l.life.Go(l.run)
	came, err := s.echo(ctx, l)
	switch {
	case err != nil:
		l.close()
		return err
	case !came:
		l.close()
		s.Log.Warn("postgres: notes do not come back, so whoever waits polls: is there a pooler in transaction mode? Give WithListenURL an address of the server itself")
		return nil
	}
	s.listener = l
	return nil
}

// connectToListen makes a connection that leads to the memory that we know.
func (s *Store) connectToListen(ctx context.Context, cfg *pgxpool.Config, known *memory) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := dial(ctx, cfg, s.plain)
	if err != nil {
		return nil, s.table.explain(err)
	}
	if s.listenURL == "" {
		err = s.recognize(ctx, c, known)
	} else if found, e := s.look(ctx, c); e != nil {
		err = e
	} else if found.id != known.id {
		err = errElsewhere
	}
	if err != nil {
		hangUp(c)
		return nil, err
	}
	return c, nil
}

// echoFor is how long a note to ourselves may take. It is long, because after that the store is mute for ever.
const echoFor = 3 * time.Second

// echo sends a note to ourselves, and reports whether a listener heard it.
func (s *Store) echo(ctx context.Context, l *listener) (came bool, err error) {
	heard := make(chan struct{}, 1)
	version := register.NewVersion()
	name := "\x00echo " + string(version[:]) // no topic is like this
	stop, err := l.listen(ctx, name, func([]byte) {
		select {
		case heard <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return false, fmt.Errorf("listen: %w", s.table.explain(err))
	}
	defer stop()
	err = s.with(ctx, func(c *pgx.Conn, known *memory) error {
		channels, texts := known.encode([]register.Note{{Topic: name}})
		_, err := s.run(ctx, c, known, `SELECT pg_notify($1::text, $2::text)`, []any{channels[0], texts[0]}, nil)
		return err
	})
	if err != nil {
		return false, s.table.explain(err)
	}
	select {
	case <-heard:
		return true, nil
	case <-time.After(echoFor):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
