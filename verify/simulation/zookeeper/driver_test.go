package zookeeper

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// atOnce is a network on which everything arrives at once.
type atOnce struct{}

func (atOnce) ToMember(p Parcel) { p.Arrive() }
func (atOnce) ToClient(p Parcel) { p.Arrive() }

func connect(t *testing.T, e *Ensemble, link string) *coord.Client {
	t.Helper()
	var servers []string
	for _, m := range e.Members() {
		servers = append(servers, m.Address())
	}
	d, err := zk.New(servers, zk.WithTTL(2*time.Second), zk.WithDialer(func(ctx context.Context, _, addr string) (net.Conn, error) {
		return e.Dial(ctx, link, addr)
	}))
	if err != nil {
		t.Fatal(err)
	}
	return coord.NewClient(d)
}

func TestTheDriverHandsALockOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{Members: 3, Tick: 200 * time.Millisecond, Network: atOnce{}})
		defer e.Close()
		a, b := connect(t, e, "a"), connect(t, e, "b")
		defer a.Close()
		defer b.Close()
		began := time.Now()
		h, err := mutex.New(a, "line").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := mutex.New(b, "line").LockChan(t.Context())
		synctest.Wait() // everybody comes to rest
		select {
		case r := <-next:
			t.Fatal("two hold", r)
		default:
		}
		time.Sleep(10 * time.Second)
		if h.Err() != nil {
			t.Fatal("a hold ends by itself:", h.Err())
		}
		for _, m := range e.Members() {
			m.Follow(1 << 30)
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
		for _, m := range e.Members() {
			m.Follow(1 << 30)
		}
		r := <-next
		if r.Err != nil || r.Hold.Token() <= h.Token() {
			t.Fatal(r)
		}
		if err := r.Hold.Release(); err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(began))
	})
}
