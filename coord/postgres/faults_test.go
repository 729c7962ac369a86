package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

func terminate(t *testing.T, m *servers.Member, which string) {
	t.Helper()
	query(t, m.URL(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turnwise' AND "+which)
}

// Four clients count, and tell of it, while backends are killed.
func TestNothingIsLostOrDoneTwiceWhileBackendsAreKilled(t *testing.T) {
	m := durable(t)
	kills := map[string]func(){
		"terminated":     func() { terminate(t, m, "query NOT LIKE 'LISTEN%'") },
		"killed with -9": func() { m.Kill(); m.Restart(t) },
		"stopped":        func() { m.Freeze(); time.Sleep(100 * time.Millisecond); m.Thaw() },
	}
	for name, kill := range kills {
		t.Run(name, func(t *testing.T) {
			s := opened(t, m.URL(), WithTable(freshTable()))
			storecheck.Count(t, kill, talkative{s}, talkative{s}, talkative{s}, talkative{s})
		})
	}
}

// talkative tells of each swap.
type talkative struct{ *Store }

func (s talkative) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	w.Notes = []register.Note{{Topic: w.Key, Text: []byte("x")}}
	return s.Store.Swap(ctx, w)
}

// The listener hears that it may have missed something, and then hears again.
func TestAListenerComesBack(t *testing.T) {
	m := durable(t)
	proxy := faultproxy.Start(t, m.Addr())
	url := strings.Replace(m.URL(), m.Addr(), proxy.Addr(), 1)
	for name, hit := range map[string]func(){
		"its backend is terminated": func() { terminate(t, m, "query LIKE '%LISTEN%'") },
		"all are":                   func() { terminate(t, m, "true") },
		"the server is killed":      func() { m.Kill(); m.Restart(t) },
		"the connection is cut":     proxy.Cut,
		"nothing comes through for a while": func() {
			proxy.Blackhole()
			time.Sleep(pingEvery + pingFor + time.Second)
			proxy.Heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, url, WithTable(freshTable()))
			other := opened(t, m.URL(), WithTable(s.table.String()))
			var lost atomic.Int64
			heard := make(chan string, 1000)
			if _, err := s.Listen(within(t, 10*time.Second), "t", func(b []byte) {
				if b == nil {
					lost.Add(1)
					return
				}
				heard <- string(b)
			}); err != nil {
				t.Fatal(err)
			}
			it := put(t, other, register.Item{Key: "k"}, "x", register.Note{Topic: "t", Text: []byte("before")})
			if got := hears(t, heard); got != "before" || lost.Load() != 0 {
				t.Errorf("heard %q, and of %d losses", got, lost.Load())
			}
			hit()
			eventually(t, "it hears that something may be lost", func() bool { return lost.Load() > 0 })
			eventually(t, "the other can swap", func() bool {
				w := register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion(), Notes: []register.Note{{Topic: "t", Text: []byte("after")}}}
				_, err := other.Swap(within(t, time.Second), w)
				return err == nil
			})
			for got := ""; got != "after"; {
				got = hears(t, heard)
			}
		})
	}
}

// promote makes a primary of a standby.
func promote(t *testing.T, m *servers.Member) {
	t.Helper()
	query(t, m.URL(), "SELECT pg_promote()")
}

// A standby that lags behind takes over. A store that knew the old primary is told, wherever its connections lead.
func TestAFailOverIsNoticed(t *testing.T) {
	old := durable(t)
	made := opened(t, old.URL()) // the table is there before the standby is
	mem, err := made.Memory(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	it := put(t, made, register.Item{Key: "k"}, "1")
	standby := servers.Postgres(t, servers.Fsync(), servers.ReplicaOf(old)).Member(0)
	both := strings.Replace(old.URL(), old.Addr(), old.Addr()+","+standby.Addr(), 1)
	proxyTo := func(m *servers.Member) *Store {
		return opened(t, strings.Replace(both, old.Addr()+","+standby.Addr(), m.Addr(), 1))
	}
	a, b := opened(t, both), opened(t, both, WithPolling())
	eventually(t, "the standby has it", func() bool {
		return query(t, standby.URL(), "SELECT count(*) FROM turnwise_register WHERE key = 'k'") == "1"
	})
	standby.Kill() // if it were only frozen, its kernel would still take what comes
	it = put(t, a, it, "2, which is not copied")
	old.Kill()
	standby.Restart(t)
	promote(t, standby)

	for _, s := range []*Store{a, b} {
		eventually(t, "it is told", func() bool {
			_, err := s.Read(within(t, time.Second), "k")
			if err == nil {
				t.Fatal("it reads from a server that has forgotten, unaware")
			}
			return errors.Is(err, register.ErrForgot)
		})
		if _, err := s.Swap(within(t, time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion()}); !errors.Is(err, register.ErrForgot) {
			t.Errorf("swap: %v", err)
		}
	}
	since := time.Now()
	for _, s := range []*Store{a, b, proxyTo(standby)} {
		now, err := s.Memory(within(t, 10*time.Second))
		if err != nil || now.ID == mem.ID || now.For > time.Since(since)+10*time.Second {
			t.Errorf("the memory is %+v, %v; it was %+v", now, err, mem)
		}
		if got := read(t, s, "k"); string(got.Value) != "1" {
			t.Errorf("there stands %+v", got)
		}
	}

	// The old primary comes back, and has not heard of the new one. Nobody who knows the new one goes back to the old.
	standby.Kill()
	old.Restart(t)
	for range 10 {
		_, err := a.Read(within(t, time.Second), "k")
		if err == nil || errors.Is(err, register.ErrForgot) {
			t.Fatalf("it goes back to the old primary: %v", err)
		}
		if strings.Contains(err.Error(), "stop it") {
			break
		}
	}
	if _, err := a.Memory(within(t, time.Second)); err == nil || !strings.Contains(err.Error(), "stop it") {
		t.Errorf("memory of the old primary: %v", err)
	}
	standby.Restart(t)
	old.Kill()
	eventually(t, "it goes on with the new one", func() bool { _, err := a.Read(within(t, time.Second), "k"); return err == nil })
}

// A restart forgets nothing. Without waiting for the disk it may.
func TestARestartIsOnlyRememberedIfTheDiskIsWaitedFor(t *testing.T) {
	for _, safe := range []bool{true, false} {
		t.Run(fmt.Sprint("fsync ", safe), func(t *testing.T) {
			var opts []servers.Option
			if safe {
				opts = append(opts, servers.Fsync())
			}
			m := servers.Postgres(t, opts...).Member(0)
			s := opened(t, m.URL())
			put(t, s, register.Item{Key: "k"}, "x")
			storecheck.Restarts(t, s, safe, func() { m.Restart(t) })
		})
	}
}

// Somebody empties the table, or creates it again, while the connections stay.
func TestATableThatIsEmptiedHasForgotten(t *testing.T) {
	m := sharedServer(t)
	for name, sql := range map[string]string{
		"emptied":   `TRUNCATE {t}`,
		"made anew": `DROP TABLE {t}; ` + "{schema}",
		"deleted":   `DELETE FROM {t}`,
	} {
		for what, call := range storecheck.Calls {
			t.Run(name+", "+what, func(t *testing.T) {
				s := opened(t, m.URL(), WithTable(freshTable()))
				before, _ := s.Memory(within(t, 10*time.Second))
				it := put(t, s, register.Item{Key: "k"}, "x")
				since := time.Now()
				query(t, m.URL(), strings.NewReplacer("{t}", s.table.quoted(), "{schema}", Schema(s.table.String())).Replace(sql))
				newcomer := opened(t, m.URL(), WithTable(s.table.String()))
				if err := call(t, s, it); !errors.Is(err, register.ErrForgot) {
					t.Fatalf("it returns %v", err)
				}
				for _, s := range []*Store{newcomer, s} {
					after, err := s.Memory(within(t, 10*time.Second))
					if err != nil || after.ID == before.ID || after.For > time.Since(since) {
						t.Errorf("the memory is %+v, %v, %v later; it was %+v", after, err, time.Since(since), before)
					}
				}
				worksThroughout(t, s)
			})
		}
	}
}

func TestAClockThatWasPutRightKeepsNobody(t *testing.T) {
	m := sharedServer(t)
	table := freshTable()
	s := opened(t, m.URL(), WithTable(table))
	c, err := Connect(within(t, 20*time.Second), m.URL(), WithTable(table), WithTTL(2*time.Second), WithLongestTTL(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	storecheck.PutRight(t, s, c,
		func() {
			query(t, m.URL(), `UPDATE `+s.table.quoted()+` SET since = now() + interval '1 hour' WHERE key = decode('00', 'hex')`)
		},
		func() {
			query(t, m.URL(), `UPDATE `+s.table.quoted()+` SET reserved_by = 1, reserved_until = now() + interval '1 hour' WHERE key = 'reserved'`)
		})
}

func TestAConnectionThatIsSlowToBeMadeIsMade(t *testing.T) {
	storecheck.SlowToConnect(t, durable(t), 35*time.Millisecond, func(ctx context.Context, url string) (register.Store, error) { return Open(ctx, url) })
}
