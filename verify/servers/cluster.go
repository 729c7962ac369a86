package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// service is what differs between ZooKeeper, etcd, Redis and the others.
type service interface {
	name() string
	// clientPort is the name of the port that clients connect to.
	clientPort(config) string
	// command writes the member's configuration and returns the command that runs it.
	command(m *Member) (*exec.Cmd, error)
	// next waits until the next member of a new cluster may be launched.
	next(ctx context.Context, m *Member) error
	// probe asks the member whether it serves.
	probe(ctx context.Context, m *Member) (health, error)
	// url returns the member's address as its clients write it.
	url(m *Member) string
	// goodOrder is the signal on which a member ends in good order.
	goodOrder() syscall.Signal
}

// An untidy service leaves something outside its folder when it is killed.
type untidy interface {
	cleanUp(m *Member)
}

// independent is embedded by services whose members know nothing of one another.
type independent struct{}

func (independent) clientPort(config) string { return "client" }

func (independent) next(context.Context, *Member) error { return nil }

func (independent) goodOrder() syscall.Signal { return syscall.SIGTERM }

type health struct {
	serving bool
	leads   bool
	version string
}

// errPortTaken can be cured by choosing other ports.
var errPortTaken = errors.New("a port was taken by another process")

// A Cluster is one service: a single server, or several that form an ensemble. Several servers of Redis, PostgreSQL, MariaDB
// or memcached know nothing of one another.
type Cluster struct {
	service service
	cfg     config
	members []*Member
	version string
	certs   *certificates // nil without TLS

	mu     sync.Mutex
	ports  map[string]reservation // by member and name
	routes map[string]route       // by both members and name

	forwarders map[int]net.Listener // by member; etcd only
}

// startTimeout allows for a machine that does ten other things at the same time; a quiet one takes 2 s at most.
const startTimeout = 90 * time.Second

func start(ctx context.Context, s service, dir string, cfg config) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := filepath.Abs(dir) // the servers run in folders of their own
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		c := &Cluster{service: s, cfg: cfg, ports: map[string]reservation{}, routes: map[string]route{},
			forwarders: map[int]net.Listener{}}
		// The cluster gets a folder of its own: what an earlier cluster left in dir belongs to other members.
		own, err := os.MkdirTemp(dir, strings.ToLower(s.name())+"-")
		if err != nil {
			return nil, err
		}
		if err = c.start(ctx, own); err == nil {
			return c, nil
		}
		c.Close()
		if !errors.Is(err, errPortTaken) || attempt == 5 {
			return nil, fmt.Errorf("start %s: %w", s.name(), err)
		}
	}
}

func (c *Cluster) start(ctx context.Context, dir string) error {
	if c.cfg.tls {
		var err error
		if c.certs, err = makeCertificates(filepath.Join(dir, "tls")); err != nil {
			return err
		}
	}
	for i := range c.cfg.members {
		m := &Member{cluster: c, id: i + 1, dir: filepath.Join(dir, strconv.Itoa(i+1))}
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		if err := m.Launch(); err != nil {
			return err
		}
		if err := c.service.next(ctx, m); err != nil {
			return err
		}
	}
	return c.Ready(ctx)
}

// Addrs returns the addresses, host:port, at which clients reach the members.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, m := range c.members {
		addrs = append(addrs, m.Addr())
	}
	return addrs
}

// URL returns the first member's URL; see [Member.URL].
func (c *Cluster) URL() string { return c.members[0].URL() }

// Members returns all members, even those that were killed.
func (c *Cluster) Members() []*Member { return slices.Clone(c.members) }

// Member returns the i-th member, counted from 0.
func (c *Cluster) Member(i int) *Member { return c.members[i] }

// Version returns the servers' version, as they report it themselves.
func (c *Cluster) Version() string { return c.version }

// Name returns the service and its version, such as "ZooKeeper 3.8.0".
func (c *Cluster) Name() string { return c.service.name() + " " + c.version }

// Ready waits until all members that were launched serve, except frozen ones. It fails if one ends instead.
func (c *Cluster) Ready(ctx context.Context) error {
	for _, m := range c.members {
		if !m.expected() {
			continue
		}
		if err := m.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// FindLeader waits until one of the running members leads, and returns it. A single server leads itself.
func (c *Cluster) FindLeader(ctx context.Context) (*Member, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for patience := 50 * time.Millisecond; ; patience = min(2*patience, 2*time.Second) {
		for _, m := range c.members {
			if !m.expected() {
				continue
			}
			if h, err := m.probe(ctx, patience); err == nil && h.serving && h.leads {
				return m, nil
			}
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("no member of %s leads: %w\n%s", c.service.name(), err, c.logTails())
		}
	}
}

// Close kills every member. Their data stay where they are.
func (c *Cluster) Close() {
	for _, m := range c.members {
		m.Kill()
		if s, ok := c.service.(untidy); ok {
			s.cleanUp(m)
		}
	}
	c.closeRoutes()
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.ports {
		r.release()
		delete(c.ports, key)
	}
}

// port returns the member's port of that name, and reserves it the first time.
func (c *Cluster) port(m *Member, name string) (int, error) {
	key := fmt.Sprintf("%d/%s", m.id, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.ports[key]; ok {
		return r.port, nil
	}
	r, err := reservePort()
	if err != nil {
		return 0, err
	}
	c.ports[key] = r
	return r.port, nil
}

// addr returns host:port for the member's port of that name.
func (c *Cluster) addr(m *Member, name string) (string, error) {
	port, err := c.port(m, name)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

var portPlaceholder = regexp.MustCompile(`\{port:([a-z0-9-]+)\}`)

// expand fills in what stands in braces; see [Config].
func (c *Cluster) expand(m *Member, texts []string) ([]string, error) {
	var failed error
	var expanded []string
	for _, text := range texts {
		text = strings.NewReplacer("{name}", m.Name(), "{dir}", m.dir).Replace(text)
		text = portPlaceholder.ReplaceAllStringFunc(text, func(match string) string {
			port, err := c.port(m, portPlaceholder.FindStringSubmatch(match)[1])
			failed = errors.Join(failed, err)
			return strconv.Itoa(port)
		})
		expanded = append(expanded, text)
	}
	return expanded, failed
}

func (c *Cluster) logTails() string {
	var tails strings.Builder
	for _, m := range c.members {
		fmt.Fprintf(&tails, "--- end of the log of %s, %s:\n%s\n", m.Name(), m.LogFile(), m.logTail())
	}
	return tails.String()
}

// pause waits between two checks of a server that is not ready yet.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}
