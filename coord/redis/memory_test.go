package redis

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// forgets waits until each call says that the store may have forgotten, and does nothing.
func forgets(t *testing.T, s *Store) {
	t.Helper()
	swap := func(ctx context.Context) error {
		_, err := s.Swap(ctx, register.Swap{Key: "forgets", Next: register.NewVersion()})
		return err
	}
	storecheck.Eventually(t, "a swap to end with ErrForgot", func() bool {
		err := swap(t.Context())
		if err == nil || errors.Is(err, register.ErrConflict) {
			t.Fatalf("a swap ended with %v", err)
		}
		return errors.Is(err, register.ErrForgot)
	})
	for name, call := range map[string]func(context.Context) error{
		"read":   func(ctx context.Context) error { _, err := s.Read(ctx, "a"); return err },
		"swap":   swap,
		"list":   func(ctx context.Context) error { return s.List(ctx, "", func(register.Item) bool { return true }) },
		"listen": func(ctx context.Context) error { _, err := s.Listen(ctx, "a", func([]byte) {}); return err },
	} {
		if err := call(t.Context()); !errors.Is(err, register.ErrForgot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// remembers waits until a register is read, and fails if anything was forgotten.
func remembers(t *testing.T, s *Store, key, text string) {
	t.Helper()
	storecheck.Eventually(t, "to read "+key, func() bool {
		it, err := s.Read(t.Context(), key)
		if errors.Is(err, register.ErrForgot) || err == nil && string(it.Value) != text {
			t.Fatalf("%v, %v", it, err)
		}
		return err == nil
	})
}

// evasive gives no answer, a few times, when a server is asked for its configuration.
type evasive struct {
	instead []byte // of an answer; nil: it cuts the connection
	times   atomic.Int32
	asked   atomic.Bool
}

func (e *evasive) Message(_ int, _ faultproxy.Direction, data []byte) int { return len(data) }

func (e *evasive) Judge(_ int, d faultproxy.Direction, message []byte) (v faultproxy.Verdict) {
	switch {
	case d == faultproxy.ToServer && bytes.Contains(message, []byte("CONFIG")) && e.times.Add(-1) >= 0:
		v.Cut = e.instead == nil
		e.asked.Store(!v.Cut)
	case d == faultproxy.ToClient && e.asked.Swap(false):
		v.Instead = e.instead
	}
	return v
}

// After a restart the server is asked whether it has kept what it has answered. That no answer comes does not say no.
func TestARestartWithoutAnAnswerEndsNoMemory(t *testing.T) {
	for name, instead := range map[string][]byte{"the connection is lost": nil, "the server is busy": []byte("-BUSY Redis is busy\r\n")} {
		t.Run(name, func(t *testing.T) {
			m := servers.Redis(t, servers.AppendOnly("always")).Member(0)
			e := &evasive{instead: instead}
			p, err := faultproxy.NewWithTraffic(m.Addr(), e)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			s := open1(t, p.Addr())
			redistest.Put(t, s, "a", "one")
			before := redistest.Remembered(t, s)
			m.Kill()
			e.times.Store(3)
			m.Restart(t)
			remembers(t, s, "a", "one")
			if e.times.Load() >= 3 {
				t.Error("nobody has asked, so this shows nothing")
			}
			if after := redistest.Remembered(t, s); after.ID != before.ID {
				t.Errorf("%v, and then %v", before, after)
			}
		})
	}
}

func TestARestartWithoutADiskForgets(t *testing.T) {
	cluster := servers.Redis(t)
	s, other := open1(t, cluster.Addrs()[0]), open1(t, cluster.Addrs()[0])
	redistest.Put(t, s, "a", "one")
	before := redistest.Remembered(t, s)
	if other := redistest.Remembered(t, other); other.ID != before.ID || other.For < before.For {
		t.Errorf("%v, and to another %v", before, other)
	}
	cluster.Member(0).Restart(t)
	forgets(t, s)
	forgets(t, other)
	after := redistest.Remembered(t, s)
	if after.ID == before.ID || after.For > before.For+time.Second {
		t.Errorf("%v, then %v", before, after)
	}
	if it := redistest.Read(t, s, "a"); !it.Version.IsZero() {
		t.Errorf("it holds %v", it)
	}
	if other := redistest.Remembered(t, other); other.ID != after.ID {
		t.Errorf("%v, and to another %v", after, other)
	}
}

func TestARestartWithWhatWasSavedASecondAgoForgets(t *testing.T) {
	cluster := servers.Redis(t, servers.AppendOnly("everysec"))
	s := open1(t, cluster.Addrs()[0])
	redistest.Put(t, s, "a", "one")
	before := redistest.Remembered(t, s)
	time.Sleep(2 * time.Second)
	cluster.Member(0).Kill()
	time.Sleep(1200 * time.Millisecond)
	cluster.Member(0).Restart(t)
	forgets(t, s)
	after := redistest.Remembered(t, s)
	if after.ID == before.ID || after.For > 3*time.Second {
		t.Errorf("%v, then %v", before, after)
	}
	if it := redistest.Read(t, s, "a"); string(it.Value) != "one" {
		t.Errorf("it holds %v", it) // this time it was on the disk
	}
}

func TestARestartAfterTheDiskWasWaitedForForgetsNothing(t *testing.T) {
	cluster := servers.Redis(t, servers.AppendOnly("always"))
	s := open1(t, cluster.Addrs()[0])
	h, _ := redistest.Listen(t, s, "a")
	before := redistest.Remembered(t, s)
	for _, text := range []string{"one", "two", "three"} {
		redistest.Put(t, s, "a", text)
		cluster.Member(0).Restart(t)
		remembers(t, s, "a", text)
	}
	if after := redistest.Remembered(t, s); after.ID != before.ID {
		t.Errorf("%v, then %v", before, after)
	}
	h.Await(t, "lost")
}

func TestARestartOfAServerThatNoLongerWaitsForItsDiskForgets(t *testing.T) {
	cluster := servers.Redis(t, servers.AppendOnly("always"))
	s := open1(t, cluster.Addrs()[0])
	cluster.Member(0).Restart(t)
	redistest.CLI(t, cluster.Addrs()[0], "CONFIG", "SET", "appendfsync", "everysec")
	forgets(t, s)
}

func TestAnEmptiedDatabaseHasForgotten(t *testing.T) {
	for _, how := range []string{"FLUSHALL", "FLUSHDB"} {
		t.Run(how, func(t *testing.T) {
			cluster := servers.Redis(t, servers.AppendOnly("always"))
			s := open1(t, cluster.Addrs()[0])
			before := redistest.Remembered(t, s)
			time.Sleep(time.Second)
			redistest.CLI(t, cluster.Addrs()[0], how)
			forgets(t, s)
			if after := redistest.Remembered(t, s); after.ID == before.ID || after.For > time.Second {
				t.Errorf("%v, then %v", before, after)
			}
		})
	}
}

func TestAServerWithoutItsScriptsIsGivenThemAgain(t *testing.T) {
	cluster := servers.Redis(t)
	s := open1(t, cluster.Addrs()[0])
	redistest.Put(t, s, "a", "one")
	redistest.CLI(t, cluster.Addrs()[0], "SCRIPT", "FLUSH")
	remembers(t, s, "a", "one")
	redistest.Put(t, s, "a", "two")
}

func follow(t *testing.T, follower, leader string) {
	t.Helper()
	if leader == "" {
		redistest.CLI(t, follower, "REPLICAOF", "NO", "ONE")
		return
	}
	host, port, _ := net.SplitHostPort(leader)
	redistest.CLI(t, follower, "REPLICAOF", host, port)
	storecheck.Eventually(t, "the replica to have caught up", func() bool {
		info := redistest.CLI(t, follower, "INFO", "replication")
		return containsAll(info, "role:slave", "master_link_status:up", "master_sync_in_progress:0")
	})
}

// A replica that is promoted in place of its master has run for long, and may lack the master's last writes.
func TestAReplicaThatTookOverHasForgotten(t *testing.T) {
	for _, disk := range []string{"", "always"} {
		t.Run("appendfsync "+disk, func(t *testing.T) {
			var opts []servers.Option
			if disk != "" {
				opts = append(opts, servers.AppendOnly(disk))
			}
			cluster := servers.Redis(t, append(opts, servers.Members(2))...)
			a, b := cluster.Addrs()[0], cluster.Addrs()[1]
			proxy := faultproxy.Start(t, a)
			s := open1(t, proxy.Addr())
			time.Sleep(3 * time.Second)
			before := redistest.Remembered(t, s)
			follow(t, b, a)
			redistest.Put(t, s, "a", "one")
			if now := redistest.Remembered(t, s); now.ID != before.ID {
				t.Errorf("a replica attached: %v, then %v", before, now)
			}
			storecheck.Eventually(t, "the replica to have it", func() bool { return len(redistest.CLI(t, b, "GET", "turnwise:a")) > 0 })

			follow(t, b, "")
			proxy.Lead(b)
			forgets(t, s)
			after := redistest.Remembered(t, s)
			if after.ID == before.ID || after.For > 2*time.Second {
				t.Errorf("%v, then %v", before, after)
			}
			redistest.Put(t, s, "a", "two")

			// And back to the first, which still runs, and may have something that was never swapped at the second.
			follow(t, a, b)
			proxy.Lead(a)
			storecheck.Eventually(t, "a replica not to do", func() bool {
				_, err := s.Read(t.Context(), "a")
				if err == nil {
					t.Fatal("a replica was read")
				}
				return errors.Is(err, server.ErrReplica)
			})
			follow(t, a, "")
			forgets(t, s)
			if again := redistest.Remembered(t, s); again.ID == after.ID || again.ID == before.ID {
				t.Errorf("%v, %v, then %v", before, after, again)
			}
		})
	}
}

// The same, but nobody has been at the second server, so its mark is still the first one's.
func TestAMasterThatFollowedForAMomentHasForgotten(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(2))
	a, b := cluster.Addrs()[0], cluster.Addrs()[1]
	s := open1(t, a)
	follow(t, b, a)
	redistest.Put(t, s, "a", "one")
	follow(t, b, "")
	redistest.Put(t, s, "a", "two") // only the first has it
	follow(t, a, b)
	follow(t, a, "")
	forgets(t, s)
	redistest.Remembered(t, s)
	if it := redistest.Read(t, s, "a"); string(it.Value) == "two" {
		t.Errorf("it was not lost after all: %v; this shows nothing", it)
	}
}

// Whoever has switched appendonly off for a while has an old file there, and the server that finds it knows of nothing that came
// later. Who held by that, and is cut off, believes for a TTL. A process that was never there before has to wait for that.
func TestARestartFromAnOldFileIsNoOldMemory(t *testing.T) {
	cluster := servers.Redis(t, servers.AppendOnly("always"))
	m := cluster.Member(0)
	open1(t, m.Addr())
	time.Sleep(2 * time.Second)
	redistest.CLI(t, m.Addr(), "CONFIG", "SET", "appendonly", "no")
	s := open1(t, m.Addr())
	redistest.Put(t, s, "a", "by a holder")
	at := time.Now()
	m.Kill()
	m.Restart(t)
	newcomer := open1(t, m.Addr())
	if it := redistest.Read(t, newcomer, "a"); !it.Version.IsZero() {
		t.Fatalf("it holds %v, so this shows nothing", it)
	}
	if after := redistest.Remembered(t, newcomer); after.For > time.Since(at) {
		t.Errorf("it remembers for %v, and was started %v ago", after.For, time.Since(at))
	}
}

// A server that was started with a backup says that it remembers what the backup does. Whoever has seen more renewals ends that.
func TestWhoHasSeenMoreThanABackupEndsItsMemory(t *testing.T) {
	m := servers.Redis(t, servers.AppendOnly("always")).Member(0)
	s := open1(t, m.Addr())
	it := redistest.Put(t, s, "session", "one")
	renew := func() {
		t.Helper()
		swap := register.Swap{Key: "session", Old: it.Version, Next: register.NewVersion(), Value: []byte("renewed"), Clock: true}
		storecheck.Eventually(t, "the session to be renewed", func() (done bool) { // to keep its disk the server is started anew
			now, err := s.Swap(register.ForRenewal(redistest.Within(t, time.Minute)), swap)
			if err == nil {
				it = now
			}
			return err == nil
		})
	}
	renew()
	before := redistest.Remembered(t, s)
	m.KeepDisk(t)
	renew()
	m.PutBackDisk(t)
	forgets(t, s)
	if after := redistest.Remembered(t, s); after.ID == before.ID {
		t.Errorf("it goes on with the memory of the backup, %s", after.ID)
	}
}

// lateTraffic holds up the answer in which a number stands.
type lateTraffic struct {
	number []byte
	held   chan struct{} // closed when it is held up
	until  chan struct{}
}

func (l *lateTraffic) Message(_ int, _ faultproxy.Direction, data []byte) int { return len(data) }

func (l *lateTraffic) Judge(_ int, d faultproxy.Direction, message []byte) (v faultproxy.Verdict) {
	if d == faultproxy.ToClient && bytes.Contains(message, l.number) {
		close(l.held)
		v.Until = l.until
	}
	return v
}

// The answer to a renewal is held up on its connection. Meanwhile the database is emptied, and that is noticed on another. The number of
// renewals in the answer says nothing of the memory that the database has now: that must not end as well.
func TestARenewalThatIsAnsweredLateEndsNoNewMemory(t *testing.T) {
	m := servers.Redis(t).Member(0)
	late := &lateTraffic{[]byte(":5001\r\n"), make(chan struct{}), make(chan struct{})}
	p, err := faultproxy.NewWithTraffic(m.Addr(), late)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s := open1(t, p.Addr())
	ctx := redistest.Within(t, time.Minute)
	it := redistest.Put(t, s, "session", "one")
	redistest.CLI(t, m.Addr(), "SET", s.server.Renewals(), "5000")
	renewed := make(chan error, 1)
	go func() {
		_, err := s.Swap(register.ForRenewal(ctx), register.Swap{Key: "session", Old: it.Version, Next: register.NewVersion(), Value: []byte("two"), Clock: true})
		renewed <- err
	}()
	select {
	case <-late.held:
	case err := <-renewed:
		t.Fatalf("it was not held up: %v", err)
	}
	redistest.CLI(t, m.Addr(), "FLUSHALL")
	forgets(t, s)
	is := redistest.Remembered(t, s)
	close(late.until)
	if err := <-renewed; err != nil {
		t.Fatal(err)
	}
	if again := redistest.Remembered(t, s); again.ID != is.ID {
		t.Errorf("the memory of after (%s) ended too, and nothing has been forgotten since it began", is.ID)
	}
}

func TestItShowsThatTheServerWasStartedAnew(t *testing.T) {
	m := servers.Redis(t, servers.AppendOnly("always")).Member(0)
	storecheck.AfterRestart(t, m, func(ctx context.Context, url string) (register.Reconnecting, error) { return Open(ctx, url) })
}

func TestAConnectionThatIsSlowToBeMadeIsMade(t *testing.T) {
	storecheck.SlowToConnect(t, servers.Redis(t).Member(0), 100*time.Millisecond, func(ctx context.Context, url string) (register.Store, error) {
		return Open(ctx, url)
	})
}
