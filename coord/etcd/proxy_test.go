package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/verify/servers"
)

// etcd's own grpc-proxy gives its own numbers to watches, and answers in any order.
func TestThroughGRPCProxyOfEtcd(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	proxy := servers.EtcdProxy(t, cluster)
	root := direct(t, cluster)
	s := open(t, connectLink(t, proxy))
	other := open(t, connectLink(t, proxy))
	const crowd = 30
	places := make([]driver.Place, crowd)
	turns := make([]<-chan error, crowd)
	for i := range places {
		from := s
		if i%3 == 0 {
			from = other
		}
		me, ahead := join(t, from, entry("proxied", "lock"))
		places[i], turns[i] = me, waiter(t, me, ahead)
	}
	for i := range places {
		begun := time.Now()
		answers(t, turns[i], 8*time.Second, nil, "the next")
		if took := time.Since(begun); took > 5*time.Second {
			t.Fatalf("hand-over %d took %v", i, took)
		}
		leave(t, places[i], true)
	}
	me, _ := join(t, s, entry("proxied", "lock"))
	gone := make(chan error, 1)
	go func() { gone <- me.Watch(within(t, time.Minute)) }()
	time.Sleep(300 * time.Millisecond)
	if _, err := root.Delete(within(t, 10*time.Second), me.(*place).key); err != nil {
		t.Fatal(err)
	}
	answers(t, gone, 8*time.Second, driver.ErrRemoved, "the holder")
	if err := s.Close(within(t, 10*time.Second)); err != nil && !errors.Is(err, driver.ErrSessionEnded) {
		t.Error(err)
	}
}
