package servers

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/turnwise/turnwise/verify/faultproxy"
)

// Links has the members of a ZooKeeper reach each other through proxies, so that what lies between two of them can
// fail while clients reach both; see [Cluster.Isolate].
func Links() Option { return func(c *config) { c.links = true } }

// route is the way from one member to a port of another.
type route struct {
	from, to *Member
	proxy    *faultproxy.Proxy
}

// via gives the port at which one member reaches another's of that name.
func (c *Cluster) via(from, to *Member, name string) (int, error) {
	port, err := c.port(to, name)
	if err != nil || !c.cfg.links || from == to {
		return port, err
	}
	target := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%d-%d/%s", from.id, to.id, name)
	r, ok := c.routes[key]
	if !ok {
		proxy, err := faultproxy.NewWithTraffic(target, introductions{c, from, to})
		if err != nil {
			return 0, err
		}
		r = route{from, to, proxy}
		c.routes[key] = r
	}
	_, text, err := net.SplitHostPort(r.proxy.Addr())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// Isolate cuts a member off from all others, or from those given: nothing that they say to each other arrives, in either
// direction, and nobody is told. Its clients reach it as before. What was said meanwhile arrives after heal.
func (c *Cluster) Isolate(m *Member, others ...*Member) (heal func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var between []*faultproxy.Proxy
	for _, r := range c.routes {
		far := r.to
		if far == m {
			far = r.from
		}
		if (r.from == m || r.to == m) && (len(others) == 0 || slices.Contains(others, far)) {
			between = append(between, r.proxy)
		}
	}
	if len(between) == 0 {
		panic("servers: the cluster was started without Links")
	}
	for _, p := range between {
		p.Blackhole()
	}
	return func() {
		for _, p := range between {
			p.Heal()
		}
	}
}

// closeRoutes is called when the members have ended.
func (c *Cluster) closeRoutes() {
	c.mu.Lock()
	routes := c.routes
	c.routes = nil
	c.mu.Unlock()
	for _, r := range routes {
		r.proxy.Close()
	}
}
