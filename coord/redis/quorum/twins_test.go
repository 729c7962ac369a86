package quorum

import (
	"context"
	"strings"
	"testing"
	"time"

	"errors"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestOneServerUnderTwoNamesIsRefused(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	openOn(t, cluster)
	a, b := cluster.Addrs()[0], cluster.Addrs()[1]
	refused := 0
	for tries := 0; refused < 20; tries++ {
		if tries == 100 {
			t.Fatalf("it was opened %d times", tries-refused)
		}
		q, err := Open(redistest.Within(t, 20*time.Second), []string{a, b, b})
		if err == nil { // on a busy machine one name has not answered in time: then it has no vote
			if voters(q) > 2 {
				t.Error("one server has two votes")
			}
			q.Close()
			continue
		}
		if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "lead to one Redis") {
			t.Fatal(err)
		}
		refused++
	}
}

// A name leads to another server than before, as after a change in DNS. That server has one vote, and not two.
func TestANameThatLeadsElsewhereHasNoVoteOfItsOwn(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3))
	a, b, c := cluster.Addrs()[0], cluster.Addrs()[1], cluster.Addrs()[2]
	name := faultproxy.Start(t, b)
	q, err := Open(redistest.Within(t, 20*time.Second), []string{a, name.Addr(), c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	it := redistest.Put(t, q, "a", "one")
	name.Lead(a)
	cluster.Member(2).Kill()
	for range 10 { // until it is known who is where
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := q.Read(ctx, "a")
		if err == nil {
			t.Fatal("one server of three was read")
		}
		if _, err = q.Swap(ctx, register.Swap{Key: "a", Old: it.Version, Next: register.NewVersion(), Value: []byte("two")}); err == nil {
			t.Fatal("one server of three has swapped")
		}
		cancel()
	}
	name.Lead(b) // and all goes on
	storecheck.Eventually(t, "it is swapped", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		it, err := q.Read(ctx, "a")
		if err == nil {
			_, err = q.Swap(ctx, register.Swap{Key: "a", Old: it.Version, Next: register.NewVersion(), Value: []byte("three")})
		}
		return err == nil
	})
}

// A note that one server tells under two names has been told by one.
func TestANoteCountsOnceForEachServer(t *testing.T) {
	heard := 0
	h := newHearsay(two, func(note []byte) {
		if note != nil {
			heard++
		}
	}, func() time.Duration { return time.Minute })
	defer h.stop()
	p := accepted{ballot: ballot{}.next()}
	one, other := strings.Repeat("a", 16), strings.Repeat("b", 16)
	note := tag(p, 1, "key", 0) + "text"
	for name := range 2 {
		if h.tell(name, []byte(one+note)); heard > 0 {
			t.Fatal("it is believed")
		}
	}
	if h.tell(0, []byte(other+note)); heard > 0 {
		t.Fatal("a name speaks for two")
	}
	if h.tell(2, []byte(other+note)); heard != 1 {
		t.Errorf("two servers have told it, and it was heard %d times", heard)
	}
}

// Two databases of one server have two memories, and fail together.
func TestTwoDatabasesOfOneServerAreRefused(t *testing.T) {
	all := servers.Redis(t, servers.Members(2)).Addrs()
	q, err := Open(redistest.Within(t, 20*time.Second), []string{"redis://" + all[0] + "/0", "redis://" + all[0] + "/1", all[1]})
	if err == nil {
		q.Close()
	}
	if !errors.Is(err, driver.ErrDenied) {
		t.Errorf("open: %v", err)
	}
}

// Two containers get each other's addresses, and are restarted, and have their own addresses again.
func TestAServerThatWasRestartedBehindAnotherNameGoesOnVoting(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
	all := cluster.Addrs()
	x, y := faultproxy.Start(t, all[0]), faultproxy.Start(t, all[1])
	q := openNamed(t, x.Addr(), y.Addr(), all[2])
	redistest.Put(t, q, "a", "one")
	exchange := func(first, second string) {
		x.Lead(first)
		y.Lead(second)
		x.Cut()
		y.Cut()
		storecheck.Eventually(t, "three votes", func() bool { return voters(q) == 3 })
	}
	exchange(all[1], all[0])
	for i := range 2 {
		cluster.Member(i).Kill()
		cluster.Member(i).Restart(t)
	}
	exchange(all[0], all[1])
	if it := redistest.Read(t, q, "a"); string(it.Value) != "one" {
		t.Errorf("there stands %q", it.Value)
	}
}
