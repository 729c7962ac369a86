package etcd

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/verify/servers"
)

// A stray node has a number that a place in another line has by now. It is taken away all the same, and the place stays.
// (It blocked its line for as long as the number was in use.)
func TestAStrayIsTakenAwayWhoeverHasItsNumber(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...))
	me, _ := join(t, s, entry("stray", "lock"))
	key, _, _ := parseID(me.Node().ID)
	leave(t, me, true)
	other, _ := join(t, s, entry("has its number", "lock"))
	for _, stray := range []string{key, key[:len(key)-1] + "7"} {
		if _, err := root.Put(within(t, 10*time.Second), stray, "", clientv3.WithLease(s.lease)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.sweep(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	stays(t, root, "stray", 0, 0)
	stays(t, root, "has its number", 1, 0)
	leave(t, other, true)
}

// A number is given to nobody while a stray with it is taken away.
func TestANumberThatIsSweptIsGivenToNobody(t *testing.T) {
	var n numbers
	name := func(number int64) string { return string(rune('a' + number)) }
	take := func(want int64) {
		t.Helper()
		if got, key := n.next(name); got != want || key != name(want) {
			t.Errorf("the next is %d, %s; want %d", got, key, want)
		}
	}
	take(1)
	if n.keep(1, name(1)) {
		t.Error("a place of ours is taken for a stray")
	}
	if !n.keep(1, "other") {
		t.Error("a stray is taken for the place that has its number")
	}
	n.giveBack(1)
	take(2)
	n.giveBack(2)
	take(2)
	n.keepNone()
	take(1)
	if !n.keep(3, "other") {
		t.Error("a stray with a number that was never used is taken for ours")
	}
	take(4)
	n.keepNone()
	take(3)
	take(5)
}
