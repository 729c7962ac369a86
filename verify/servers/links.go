package servers

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/verify/faultproxy"
)

// Links has the members reach each other through proxies, so that what lies between two of them can fail while clients
// reach both; see [Cluster.Isolate] and [Cluster.Hold].
func Links() Option { return func(c *config) { c.links = true } }

// route is the way from one member to a port of another.
type route struct {
	from, to *Member
	proxy    *faultproxy.Proxy
}

// via returns the port at which one member reaches another's port of that name.
func (c *Cluster) via(from, to *Member, name string) (int, error) {
	port, err := c.port(to, name)
	if err != nil || !c.cfg.links || from == to {
		return port, err
	}
	target := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.routes == nil {
		return 0, net.ErrClosed
	}
	key := fmt.Sprintf("%d-%d/%s", from.id, to.id, name)
	r, ok := c.routes[key]
	if !ok {
		var traffic faultproxy.Traffic
		if name == "election" {
			traffic = introductions{c, from, to}
		}
		proxy, err := faultproxy.NewWithTraffic(target, traffic)
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

// Hold keeps back what one member says to another, while what the other says arrives. Nobody is told. What was said meanwhile
// arrives after release.
func (c *Cluster) Hold(from, to *Member) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := make(map[*faultproxy.Proxy]faultproxy.Direction)
	for _, r := range c.routes {
		switch {
		case r.from == from && r.to == to:
			held[r.proxy] = faultproxy.ToServer
		case r.from == to && r.to == from:
			held[r.proxy] = faultproxy.ToClient
		}
	}
	if len(held) == 0 {
		panic(fmt.Sprintf("servers: nothing leads from %s to %s: was the cluster started with Links?", from.Name(), to.Name()))
	}
	for p, d := range held {
		p.Stall(d)
	}
	return func() {
		for p, d := range held {
			p.Release(d)
		}
	}
}

// All members of an etcd cluster know a member by the same URL, so the URL cannot lead each of them a different way. But
// each can have an HTTP proxy of its own. Loopback addresses never go through a proxy, so the URLs have names.

// peerURL returns where the other members reach a member.
func (c *Cluster) peerURL(m *Member) (string, error) {
	addr, err := c.addr(m, "peer")
	if c.cfg.links {
		addr = m.Name() + ".peer:80"
	}
	return "http://" + addr, err
}

// forwarder returns the URL of the HTTP proxy that a member reaches the others by. It outlives the member's process.
func (c *Cluster) forwarder(from *Member) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.forwarders[from.id]; l != nil {
		return "http://" + l.Addr().String(), nil
	}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		i := slices.IndexFunc(c.members, func(m *Member) bool { return strings.HasPrefix(addr, m.Name()+".peer:") })
		port, err := c.via(from, c.members[i], "peer")
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	c.forwarders[from.id] = l
	go func() {
		_ = http.Serve(l, &httputil.ReverseProxy{
			Rewrite:       func(*httputil.ProxyRequest) {},
			Transport:     &http.Transport{DialContext: dial},
			FlushInterval: -1, // streams
			ErrorLog:      log.New(io.Discard, "", 0),
		})
	}()
	return "http://" + l.Addr().String(), nil
}

// closeRoutes is called when the members have ended.
func (c *Cluster) closeRoutes() {
	c.mu.Lock()
	routes, forwarders := c.routes, c.forwarders
	c.routes, c.forwarders = nil, nil
	c.mu.Unlock()
	for _, l := range forwarders {
		_ = l.Close()
	}
	for _, r := range routes {
		r.proxy.Close()
	}
}
