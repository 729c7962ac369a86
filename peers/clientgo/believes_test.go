package clientgo_test

import (
	"context"
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/peers/clientgo"
	"github.com/turnwise/turnwise/recipes/election"
)

// An elector believes that it leads until it has asked again for a while in vain. Whatever ends the term meanwhile, nobody else leads until then.

// stalling is a store that does not answer for a while, and that anybody may send notes by.
type stalling struct {
	register.Store
	now *atomic.Bool
}

func (s stalling) wait(ctx context.Context) error {
	for s.now.Load() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (s stalling) Read(ctx context.Context, key string) (register.Item, error) {
	if err := s.wait(ctx); err != nil {
		return register.Item{}, err
	}
	return s.Store.Read(ctx, key)
}

func (s stalling) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if err := s.wait(ctx); err != nil {
		return register.Item{}, err
	}
	return s.Store.Swap(ctx, w)
}

// A neighbour who may do no more than send notes says that the leader's place has gone, while the service does not answer the leader for a
// moment. (The place was given back at once, and two led.)
func TestAHintAndAStallLetNobodyLeadBesideOneThatBelieves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stalls, store := &leaders{TB: t}, new(atomic.Bool), memory.NewStore()
		client := func(s *atomic.Bool) *coord.Client {
			c := coord.NewClient(register.New(stalling{store, s}, register.WithTTL(ttl), register.WithLongestTTL(ttl)))
			t.Cleanup(func() { c.Close() })
			return c
		}
		stop := p.run("first", clientgo.New(election.New(client(stalls), "reports"), "first"), 1, true, synctest.Wait)
		time.Sleep(soon)
		second := client(new(atomic.Bool))
		defer p.run("second", clientgo.New(election.New(second, "reports"), "second"), 1, true, synctest.Wait)()
		defer stop()
		time.Sleep(time.Minute + 2300*time.Millisecond)
		line, err := second.Line(t.Context(), "reports")
		if err != nil || len(line) != 2 {
			t.Fatal(line, err)
		}
		stalls.Store(true)
		session, _, _ := strings.Cut(line[0].ID, "-")
		gone := append(make([]byte, 48), byte(len("reports")))
		gone = binary.AppendUvarint(append(gone, "reports"...), 1<<40)
		gone = binary.AppendUvarint(append(gone, 'R'), 1)
		_, err = store.Swap(t.Context(), register.Swap{Key: "his", Next: register.NewVersion(), Value: []byte("x"),
			Notes: []register.Note{{Topic: "session/" + session, Text: gone}}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1300 * time.Millisecond)
		stalls.Store(false)
		time.Sleep(time.Minute)
		if p.who() == "" {
			t.Error("nobody leads")
		}
	})
}

// Where the kernel keeps sessions, a client that is closed leaves its place to whoever holds it. (It was given back at once.)
func TestNobodyLeadsBesideOneWhoseClientWasClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := &leaders{TB: t}
	lock := func(name string) (*coord.Client, *clientgo.Lock) {
		c, err := file.Connect(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c, clientgo.New(election.New(c, "reports"), name)
	}
	c, first := lock("first")
	short := times{4 * time.Second, 2500 * time.Millisecond, 500 * time.Millisecond}
	defer p.runWith(short, "first", first, true, func() {})()
	for p.who() != "first" {
		time.Sleep(50 * time.Millisecond)
	}
	_, second := lock("second")
	defer p.runWith(short, "second", second, true, func() {})()
	time.Sleep(2 * time.Second)
	c.Close()
	for began := time.Now(); p.who() != "second"; time.Sleep(20 * time.Millisecond) { // two at once are an error
		if time.Since(began) > time.Minute {
			t.Fatal("the second never leads")
		}
	}
}

// hangs is a view of the lease whose requests hang until their contexts end, as at an API server that is cut off.
type hangs struct {
	*view
	now atomic.Bool
}

func (v *hangs) wait(ctx context.Context) error {
	for v.now.Load() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return ctx.Err()
}

func (v *hangs) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := v.wait(ctx); err != nil {
		return nil, nil, err
	}
	return v.view.Get(ctx)
}

func (v *hangs) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := v.wait(ctx); err != nil {
		return err
	}
	return v.view.Update(ctx, r)
}

// With ReleaseOnCancel an elector that is cut off goes on believing while it gives up the lease, which it tries for as long as it has tried to
// renew it. (The others took the lease meanwhile. And when it came through, it took the lease away from its next holder.)
func TestWhoIsCutOffFromTheLeaseGivesItUpInTime(t *testing.T) {
	for i := range 15 {
		plays(t, func(p *play) {
			shared := &lease{}
			mine := &hangs{view: &view{lease: shared, name: "new"}}
			stop := p.run("new", clientgo.Beside(p.lock(p.client(), "new"), mine), 1, true, func() {})
			p.isLed("new", soon)
			defer p.run("old 1", shared.of("old 1"), 1, false, func() {})()
			defer p.run("old 2", shared.of("old 2"), 1, false, func() {})()
			time.Sleep(30*time.Second + time.Duration(i)*300*time.Millisecond)
			mine.now.Store(true)
			time.Sleep(20 * time.Second)
			mine.now.Store(false)
			for range 600 {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				shared.mu.Lock()
				holder := shared.record.HolderIdentity
				shared.mu.Unlock()
				if leads := p.who(); strings.HasPrefix(leads, "old") && holder == "" {
					t.Errorf("%s leads, and the lease is nobody's", leads)
				}
			}
			stop()
		})
	}
}

// A Role is deleted and made again. (From then on nobody was told who leads.)
func TestTheLeaderIsShownAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, refuses, store := &leaders{TB: t}, new(atomic.Bool), memory.NewStore()
		locks := map[string]*clientgo.Lock{}
		for _, name := range []string{"one", "two"} {
			c := coord.NewClient(register.New(denying{store, refuses}, register.WithTTL(ttl)))
			defer c.Close()
			locks[name] = clientgo.New(election.New(c, "reports"), name)
			defer p.run(name, locks[name], 1, true, synctest.Wait)()
		}
		time.Sleep(time.Minute)
		refuses.Store(true)
		time.Sleep(2 * time.Minute)
		refuses.Store(false)
		time.Sleep(2 * time.Minute)
		for name, l := range locks {
			r, _, err := l.Get(t.Context())
			if leader := p.who(); err != nil || leader == "" || name != leader && r.HolderIdentity != leader {
				t.Errorf("%s shows %v, %v, and %q leads", name, r, err, leader)
			}
		}
	})
}
