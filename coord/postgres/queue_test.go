package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// The server asks whether somebody may make a rule on a table only when it has the whole table locked for him. And a statement that is only
// prepared keeps a lock until its transaction ends, and needs no right to the table at all. So he waits behind himself, and everybody waits
// behind him. What it takes is to name the table.
func (s *strangers) queues(t testing.TB, url, table string) (letsGo func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	keeps, waits, operator := dialed(t, url), dialed(t, url), dialed(t, s.m.URL()) // who may come too late
	t.Cleanup(func() {
		cancel()
		keeps.Close(context.Background())
		waits.Close(context.Background())
		operator.Close(context.Background())
	})
	if _, err := keeps.Exec(ctx, `BEGIN; PREPARE his AS SELECT FROM `+table); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := waits.Exec(ctx, `CREATE RULE his AS ON INSERT TO `+table+` DO NOTHING`)
		ended <- err
	}()
	storecheck.Eventually(t, "he waits", func() (does bool) {
		err := operator.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted)`).Scan(&does)
		return err == nil && does
	})
	return func() {
		t.Helper()
		if _, err := keeps.Exec(ctx, `ROLLBACK`); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil {
			t.Error("he has made a rule")
		}
	}
}

// A schema that he may not use helps against that on the table, and not on a table of the server's that is read for each new connection: then
// only who is connected goes on.
func TestAStrangerWhoMayConnectKeepsEverybodyWaiting(t *testing.T) {
	const apart = "locks.register"
	s := withStrangers(t)
	s.admin(`REVOKE CREATE ON SCHEMA public FROM PUBLIC`, `GRANT CREATE ON SCHEMA public TO app`, `CREATE SCHEMA locks AUTHORIZATION app`)
	for ours, his := range map[string]string{usual: usual, apart: "pg_catalog.pg_trigger"} {
		t.Run(his, func(t *testing.T) {
			s := &strangers{t, s.m}
			a, b := s.app(WithTable(ours)), s.app(WithTable(ours))
			h := storecheck.Locked(t, a, "orders")
			s.mayNot(`SELECT FROM ` + ours)
			letsGo := s.queues(t, s.url("mallory"), his)
			if his == usual {
				storecheck.EndsSoon(t, h)
			} else if time.Sleep(8 * time.Second); h.Err() != nil { // two TTLs
				t.Errorf("the hold of who is connected: %v", h.Err())
			}
			soon, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if _, err := mutex.New(b, "another").TryLock(soon); err == nil {
				t.Error("somebody is let in")
			}
			letsGo()
			_ = h.Release()
			storecheck.ShutsOut(t, a, b, "orders")
		})
	}
	s.mayNot(`BEGIN; PREPARE his AS SELECT FROM ` + apart)
	s.mayNot(`CREATE RULE his AS ON INSERT TO ` + apart + ` DO NOTHING`)
}

// From another database he reaches only what all databases share. Nobody needs that who is connected.
func TestAStrangerOfAnotherDatabaseKeepsEverybodyFromConnecting(t *testing.T) {
	s := withStrangers(t)
	s.admin(`CREATE DATABASE his`)
	a := s.app()
	h := storecheck.Locked(t, a, "orders")
	letsGo := s.queues(t, storecheck.As(t, s.m.URL(), "mallory", "", "his"), "pg_catalog.pg_authid")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // two TTLs
	defer cancel()
	if c, err := Connect(ctx, s.url("app")); err == nil {
		c.Close()
		t.Error("somebody has connected")
	}
	if err := h.Err(); err != nil {
		t.Errorf("the hold of who is connected: %v", err)
	}
	letsGo()
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	s.app().Close()
}
