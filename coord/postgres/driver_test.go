package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// service is a table of its own on the shared server.
func service(t testing.TB, ttl time.Duration) *drivertest.Service {
	m, table := sharedServer(t), freshTable()
	return storetest.Service(t, &storetest.System{
		TTL:  ttl,
		Open: func(t testing.TB) register.Store { return opened(t, m.URL(), WithTable(table)) },
		Ages: true, Clock: true,
	})
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return service(t, 2*time.Second) })
}

func TestRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return service(t, 6*time.Second) })
}

func TestConnectGivesAClientThatLocks(t *testing.T) {
	url, table := sharedServer(t).URL(), freshTable()
	c, err := Connect(within(t, 20*time.Second), url, WithTable(table), WithTTL(2*time.Second), WithClient(coord.WithOwnerLabel("tests")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d, err := New(within(t, 20*time.Second), pool, WithTable(table))
	if err != nil {
		t.Fatal(err)
	}
	other := coord.NewClient(d)
	defer other.Close()
	h, err := mutex.New(c, "orders").Lock(within(t, 30*time.Second)) // the table is new, so it waits for the longest TTL
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mutex.New(other, "orders").TryLock(within(t, 10*time.Second)); !errors.Is(err, coord.ErrBusy) {
		t.Errorf("the lock of another: %v", err)
	}
	if nodes, err := other.Line(within(t, 10*time.Second), "orders"); err != nil || len(nodes) != 1 || nodes[0].Owner.Label != "tests" {
		t.Errorf("the line is %+v, %v", nodes, err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	if _, err := mutex.New(other, "orders").TryLock(within(t, 10*time.Second)); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestConnectSaysWhichKindOfErrorItIs(t *testing.T) {
	if _, err := Connect(within(t, 10*time.Second), "postgres://["); !errors.Is(err, coord.ErrInvalid) {
		t.Errorf("connect: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, "postgres://127.0.0.1:1/d"); !errors.Is(err, coord.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connect: %v", err)
	}
}
