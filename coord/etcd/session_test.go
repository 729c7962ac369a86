package etcd

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

func ended(t testing.TB, s driver.Session, d time.Duration, what string) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(d):
		t.Fatalf("%s: the session has not ended within %v", what, d)
	}
}

// When only one direction, or the connection, was cut, stock sessions were seen to end 0.5 to 2.5 s after the server had
// removed the key. Ours must have given up before the key goes.
func TestDeadlinePassesBeforeTheLeaseEnds(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	for name, trouble := range map[string]func(l *link) func(){
		"requests are lost": func(l *link) func() { return l.freeze(drivertest.Requests) },
		"replies are lost":  func(l *link) func() { return l.freeze(drivertest.Replies) },
		"connections break": func(l *link) func() { return l.cut() },
		"everything is late": func(l *link) func() {
			return l.delay(1500 * time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := connectLink(t, cluster.Addrs()...)
			s := open(t, l, WithTTL(2*time.Second))
			line := "deadline when " + name
			join(t, s, entry(line, "lock"))
			time.Sleep(700 * time.Millisecond) // at least one renewal
			defer trouble(l)()
			for limit := time.Now().Add(6 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
				deadline := s.Deadline()
				if len(stored(t, root, line)) > 0 {
					continue
				}
				if now := time.Now(); now.Before(deadline) {
					t.Errorf("the node has gone %v before the deadline", deadline.Sub(now))
				}
				return
			}
			// Renewals may get through although no answer reaches us. Then the lease lives on, but nobody believes in it.
			if name == "requests are lost" || name == "connections break" {
				t.Error("the lease never ends")
			}
			if time.Now().Before(s.Deadline()) && name == "replies are lost" {
				t.Error("the deadline has not passed")
			}
		})
	}
}

// A lease is kept while renewals fail, as long as some get through.
func TestLeaseOutlivesShortTrouble(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l, WithTTL(2*time.Second))
	for range 4 {
		thaw := l.freeze(drivertest.Both)
		time.Sleep(600 * time.Millisecond)
		thaw()
		time.Sleep(400 * time.Millisecond)
		heal := l.cut()
		time.Sleep(300 * time.Millisecond)
		heal()
		time.Sleep(400 * time.Millisecond)
		if s.life.Over() {
			t.Fatalf("the session has ended: %v", s.life.Why())
		}
		if left := time.Until(s.Deadline()); left < 0 {
			t.Errorf("the deadline has passed by %v", -left)
		}
	}
}

// etcd #15247: a leader that was frozen may revoke a lease that is being renewed. Only a watch shows it.
func TestRevokedLeaseIsNoticedAtOnce(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...), WithTTL(time.Minute))
	me, _ := join(t, s, entry("revoked", "lock"))
	behind, ahead := join(t, s, entry("revoked", "lock"))
	silent := open(t, connectLink(t, cluster.Addrs()...), WithTTL(time.Minute)) // nothing of it waits or watches
	watching, waiting := make(chan error, 1), make(chan error, 1)
	go func() { watching <- me.Watch(within(t, 20*time.Second)) }()
	go func() { // etcd #11456, #11051: Campaign returned as the leader after its lease had gone
		_, err := behind.Await(within(t, 20*time.Second), ahead)
		waiting <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if _, err := root.Revoke(within(t, 10*time.Second), s.lease); err != nil {
		t.Fatal(err)
	}
	ended(t, s, 2*time.Second, "the lease was revoked")
	if _, err := root.Revoke(within(t, 10*time.Second), silent.lease); err != nil {
		t.Fatal(err)
	}
	ended(t, silent, 2*time.Second, "the lease was revoked, and nobody waited")
	// A holder that does not soon hear why its node has gone stops at that news: see driverkit.Doubt.
	if err := <-watching; !errors.Is(err, driver.ErrSessionEnded) && !errors.Is(err, driver.ErrRemoved) {
		t.Errorf("watch: %v, want that the session has ended", err)
	}
	if err := <-waiting; !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("await: %v, want that the session has ended", err)
	}
	if _, _, err := s.Join(within(t, 10*time.Second), entry("revoked", "lock")); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("join: %v, want that the session has ended", err)
	}
	if err := s.Close(within(t, 10*time.Second)); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestClosingRevokesAndAbandoningDoesNot(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...))
	join(t, s, entry("closed", "lock"))
	if err := s.Close(within(t, 10*time.Second)); err != nil {
		t.Errorf("close: %v", err)
	}
	if keys := stored(t, root, "closed"); len(keys) > 0 {
		t.Errorf("after the close the line has %q", keys)
	}
	ended(t, s, time.Second, "closed")

	s = open(t, connectLink(t, cluster.Addrs()...), WithTTL(2*time.Second))
	join(t, s, entry("abandoned", "lock"))
	s.Abandon(t.Context())
	ended(t, s, time.Second, "abandoned")
	if keys := stored(t, root, "abandoned"); len(keys) != 1 {
		t.Errorf("after the session was abandoned the line has %q", keys)
	}
	stays(t, root, "abandoned", 0, 0)
}

func TestTTLIsWhatTheServiceGrants(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	for _, asked := range []time.Duration{time.Millisecond, time.Second, 1001 * time.Millisecond, 90 * time.Second, 5 * time.Minute} {
		begun := time.Now()
		s := open(t, connectLink(t, cluster.Addrs()...), WithTTL(asked))
		is, err := root.TimeToLive(within(t, 10*time.Second), s.lease)
		if err != nil {
			t.Fatal(err)
		}
		granted := time.Duration(is.GrantedTTL) * time.Second
		if granted < asked || granted > max(asked, 2*time.Second)+time.Second {
			t.Errorf("asked for %v, granted %v", asked, granted)
		}
		if d := s.Deadline(); d.Before(begun) || d.After(time.Now().Add(granted)) {
			t.Errorf("a TTL of %v ends in %v", granted, time.Until(d))
		}
	}
	for bad, says := range map[time.Duration]string{
		0: "positive", -1: "positive", 30: "30*time.Second", time.Millisecond - 1: "nanoseconds", 5*time.Minute + 1: "at most",
	} {
		if _, err := New(root, WithTTL(bad)); err == nil || !strings.Contains(err.Error(), "WithTTL") || !strings.Contains(err.Error(), says) {
			t.Errorf("WithTTL(%v): %v", bad, err)
		}
	}
}

// A member that lags behind says that there is no such lease.
func TestWrongWordOfNoLeaseEndsNothing(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l, WithTTL(2*time.Second))
	asked := make(chan struct{}, 1)
	see := func(_ string, req any) {
		if k, ok := req.(*pb.LeaseKeepAliveRequest); ok && k.ID == int64(s.lease) {
			select {
			case asked <- struct{}{}:
				k.ID++ // which does not exist
			default:
			}
		}
	}
	l.onSend.Store(&see)
	<-time.After(1500 * time.Millisecond)
	if len(asked) == 0 {
		t.Fatal("the lease was not renewed")
	}
	if s.life.Over() {
		t.Fatalf("the session has ended: %v", s.life.Why())
	}
	if left := time.Until(s.Deadline()); left < 0 {
		t.Errorf("the deadline has passed by %v", -left)
	}
}

// A restart gives leases their full TTL again, and sessions go on.
func TestSessionOutlivesRestart(t *testing.T) {
	cluster := servers.Etcd(t)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l, WithTTL(5*time.Second))
	me, _ := join(t, s, entry("restart", "lock"))
	behind, ahead := join(t, s, entry("restart", "lock"))
	answer := make(chan error, 1)
	go func() {
		_, err := turn(within(t, time.Minute), behind, ahead)
		answer <- err
	}()
	time.Sleep(50 * time.Millisecond)
	cluster.Member(0).Restart(t)
	leave(t, me, true)
	select {
	case err := <-answer:
		if err != nil {
			t.Errorf("await: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the wake-up was lost")
	}
	leave(t, behind, true)
}

// The restored backup is younger than the session. The lease is in it, but what the session has seen since is not, and a
// node of its own that left long ago may stand there again. The session notices that even if nobody makes a request.
func TestServiceThatComesBackOlderEndsTheSession(t *testing.T) {
	cluster := servers.Etcd(t)
	s := open(t, connectLink(t, cluster.Addrs()...), WithTTL(time.Minute))
	old, _ := join(t, s, entry("older", "lock"))
	restore := backUp(t, cluster.Member(0))
	leave(t, old, true)
	held, _ := join(t, s, entry("older", "lock"))
	if s.life.Over() {
		t.Fatal("the session did not outlive a restart")
	}
	restore()
	ended(t, s, 20*time.Second, "the service has forgotten "+held.Node().ID)
	if err := s.life.Why(); !errors.Is(err, errWentBack) {
		t.Errorf("it ended because: %v", err)
	}
}

// The lease is revoked while the stream that would report it is broken, and nobody waits or watches. The session notices
// when it has another stream, long before the next renewal.
func TestLeaseRevokedUnheardIsNoticed(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	l := connectLink(t, cluster.Addrs()...)
	s := open(t, l, WithTTL(2*time.Minute))
	join(t, s, entry("fresh", "lock"))
	listening(t, s)
	heal := l.cut()
	if _, err := root.Revoke(within(t, 10*time.Second), s.lease); err != nil {
		t.Fatal(err)
	}
	heal()
	ended(t, s, 20*time.Second, "the lease was revoked while the link was cut")
}

// That we have hung up is no news: the log says for what we waited in vain.
func TestTheLogDoesNotSayThatWeHungUp(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	var mu sync.Mutex
	var log strings.Builder
	said := func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}
	s := open(t, l, WithTTL(3*time.Second), WithLogger(slog.New(slog.NewTextHandler(writer(func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		log.Write(b)
	}), nil))))
	join(t, s, entry("what the log says", "lock"))
	undo := l.freeze(drivertest.Replies)
	for end := time.Now().Add(20 * time.Second); !strings.Contains(said(), "lease not renewed"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing is said: %s", said())
		}
	}
	time.Sleep(time.Second)
	undo()
	if text := said(); !strings.Contains(text, "no answer within") || strings.Contains(text, "context canceled") {
		t.Error(text)
	}
}
