package mysql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// copyTable copies one server's table, as it stands, to another server.
func copyTable(t *testing.T, from, to *servers.Member) {
	t.Helper()
	query(t, to.URL(), "DROP TABLE IF EXISTS "+defaultTable, Schema(defaultTable), "DELETE FROM "+defaultTable)
	rows, err := dialed(t, from.URL()).QueryContext(within(t, 10*time.Second), "SELECT name, version, since, value FROM "+defaultTable)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	there := dialed(t, to.URL())
	for rows.Next() {
		var name, value []byte
		var version int64
		var since string
		if err := rows.Scan(&name, &version, &since, &value); err != nil {
			t.Fatal(err)
		}
		if _, err := there.ExecContext(context.Background(), "INSERT INTO "+defaultTable+" (name, version, since, value) VALUES (?, ?, ?, ?)",
			name, version, since, value); err != nil {
			t.Fatal(err)
		}
	}
}

// A replica that lags behind takes over. A store that knew the old primary is told, and a new one has to wait as well.
func TestAFailOverIsNoticed(t *testing.T) {
	old := durable(t)
	replica := durable(t, servers.Config("server_id=2", "read_only=1"))
	a := faultproxy.Start(t, old.Addr())
	url := strings.Replace(old.URL(), old.Addr(), a.Addr(), 1)
	s := opened(t, url)
	before, err := s.Memory(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	it := put(t, s, register.Item{Key: "k"}, "1")
	copyTable(t, old, replica)
	it = put(t, s, it, "2, which is not copied")

	a.Lead(replica.Addr()) // which does not take writes yet
	if _, err := s.Read(within(t, time.Second), "k"); err == nil || errors.Is(err, register.ErrForgot) || !strings.Contains(err.Error(), "read_only") {
		t.Errorf("it reads from a replica: %v", err)
	}
	query(t, replica.URL(), "SET GLOBAL read_only = 0")
	since := time.Now()
	for range 2 {
		if _, err := s.Read(within(t, 10*time.Second), "k"); !errors.Is(err, register.ErrForgot) {
			t.Fatalf("it reads from a server that has forgotten: %v", err)
		}
		if _, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion()}); !errors.Is(err, register.ErrForgot) {
			t.Errorf("swap: %v", err)
		}
	}
	for _, s := range []*Store{s, opened(t, url), opened(t, replica.URL())} {
		now, err := s.Memory(within(t, 10*time.Second))
		if err != nil || now.ID == before.ID || now.For > time.Since(since)+time.Second {
			t.Errorf("the memory is %+v, %v; it was %+v", now, err, before)
		}
		if got := read(t, s, "k"); string(got.Value) != "1" {
			t.Errorf("there stands %+v", got)
		}
	}
	a.Lead(old.Addr()) // and back again
	if _, err := s.Read(within(t, 10*time.Second), "k"); !errors.Is(err, register.ErrForgot) {
		t.Errorf("it reads from the old one: %v", err)
	}
}
