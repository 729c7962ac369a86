package containers

import (
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/faultproxy"
)

// network is a link's way to the service. Faults that depend on what a request says are left to the drivers' own tests.
type network struct {
	proxy *faultproxy.Proxy

	mu     sync.Mutex
	frozen map[drivertest.Direction]int
	cuts   int
	delay  time.Duration
}

func newNetwork(t testing.TB, addr string) *network {
	n := &network{proxy: faultproxy.Start(t, addr), frozen: make(map[drivertest.Direction]int)}
	t.Cleanup(n.proxy.Heal)
	return n
}

func (n *network) freeze(d drivertest.Direction) func() {
	return n.fault(func(by int) { n.frozen[d] += by })
}

func (n *network) cut() func() {
	heal := n.fault(func(by int) { n.cuts += by })
	n.proxy.Cut()
	return heal
}

func (n *network) delayed(each time.Duration) func() {
	return n.fault(func(by int) { n.delay += time.Duration(by) * each })
}

// fault adds a fault, and returns a function that takes it away again.
func (n *network) fault(add func(by int)) func() {
	change := func(by int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		add(by)
		n.apply()
	}
	change(1)
	return sync.OnceFunc(func() { change(-1) })
}

func (n *network) apply() { n.proxy.Together(n.applyAnew) }

func (n *network) applyAnew() {
	n.proxy.Heal()
	for d, times := range n.frozen {
		if times > 0 && d&drivertest.Requests != 0 {
			n.proxy.Stall(faultproxy.ToServer)
		}
		if times > 0 && d&drivertest.Replies != 0 {
			n.proxy.Stall(faultproxy.ToClient)
		}
	}
	if n.delay > 0 {
		n.proxy.Delay(n.delay)
	}
	if n.cuts > 0 {
		n.proxy.Refuse()
	}
}
