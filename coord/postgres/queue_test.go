package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/internal/storecheck"
)

// The server asks whether somebody may make a rule on a table only when it has the whole table locked for him. And a statement that is only
// prepared keeps a lock until its transaction ends, and needs no right to the table at all. So he waits behind himself, and everybody waits
// behind him. What it takes is to name the table: USAGE on the schema.
func TestAStrangerWhoMayNameTheTableKeepsEverybodyWaiting(t *testing.T) {
	const prepares, rules = `BEGIN; PREPARE his AS SELECT FROM `, `CREATE RULE his AS ON INSERT TO `
	s := withStrangers(t)
	s.admin(`REVOKE CREATE ON SCHEMA public FROM PUBLIC`, `GRANT CREATE ON SCHEMA public TO app`,
		`CREATE SCHEMA locks AUTHORIZATION app`)
	a, b := s.app(), s.app()
	h := storecheck.Locked(t, a, "orders")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	keeps, waits := dialed(t, s.url("mallory")), dialed(t, s.url("mallory"))
	defer keeps.Close(context.Background())
	defer waits.Close(context.Background())
	if _, err := keeps.Exec(ctx, prepares+usual); err != nil {
		t.Fatal(err)
	}
	s.mayNot(`SELECT FROM ` + usual)
	ended := make(chan error, 1)
	go func() {
		_, err := waits.Exec(ctx, rules+usual+` DO NOTHING`)
		ended <- err
	}()
	storecheck.EndsSoon(t, h)
	soon, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if now, err := b.Line(soon, "orders"); err == nil {
		t.Errorf("somebody is answered: %v", now)
	}
	if _, err := keeps.Exec(ctx, `ROLLBACK`); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("he has made a rule")
	}
	_ = h.Release()
	storecheck.ShutsOut(t, a, b, "orders")

	// In a schema that he may not use, he cannot.
	const apart = "locks.register"
	a, b = s.app(WithTable(apart)), s.app(WithTable(apart))
	storecheck.ShutsOut(t, a, b, "orders")
	s.mayNot(prepares + apart)
	s.mayNot(rules + apart + ` DO NOTHING`)
}
