package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// A store keeps no history that would show the judge what it had. There the judge goes by what the workers believed, by
// their tokens, and by who stands in line at the end.
type store struct {
	start   func(ctx context.Context, dir string, opts ...servers.Option) (*servers.Cluster, error) // nil: there is no server
	options []servers.Option
	url     string // %s: the addresses, or the folder; parameters follow
	peers   func(*worker) []errand
	forgets bool // all, when it is restarted
}

// Data outlive a kill of the process, unless the store forgets.
var stores = map[string]store{
	"file":      {url: "file://%s/locks?", peers: flockPeer},
	"redis":     {servers.StartRedis, []servers.Option{servers.AppendOnly("always")}, "redis://%s?", redisPeers, false},
	"forgetful": {servers.StartRedis, nil, "redis://%s?", redisPeers, true},
	"quorum":    {servers.StartRedis, []servers.Option{servers.Members(groupOf + 1), servers.AppendOnly("always")}, "redis://%s?", redsyncPeer, false},
	"postgres":  {servers.StartPostgres, []servers.Option{servers.Config("max_connections = 200")}, "postgres://postgres@%s/postgres?sslmode=disable&", postgresPeers, false},
	"mysql":     {servers.StartMariaDB, []servers.Option{servers.Config("max_connections=200")}, "mysql://root@%s/turnwise?", mysqlPeers, false},
	"memcached": {servers.StartMemcached, []servers.Option{servers.Flags("-M")}, "memcached://%s?", nil, true},
	"nats":      {servers.StartNATS, nil, "nats://%s?", nil, true},
}

// isStore reports whether nothing is known of the service but what its clients say.
func (p plan) isStore() bool { return p.store().url != "" }

func (p plan) store() store { return stores[p.service] }

// hasPeers reports whether people lock there with something else.
func (p plan) hasPeers() bool { return !p.isStore() || p.store().peers != nil }

// address is how a worker reaches a store, through its own links or directly.
func (p plan) address(addrs []string) string {
	at := strings.Join(addrs, ",")
	if p.store().start == nil {
		return fmt.Sprintf(p.store().url, filepath.Join(p.dir, "store"))
	}
	return fmt.Sprintf(p.store().url, at) + fmt.Sprintf("session=%v&longest-session=%v", p.session, p.session)
}

// openStore starts a store. Its clients create what they need.
func (s *scene) openStore(ctx context.Context) (err error) {
	start := s.store().start
	if start == nil {
		return os.Mkdir(filepath.Join(s.dir, "store"), 0o700)
	}
	if s.cluster, err = start(ctx, s.dir, append(s.clocks(), s.store().options...)...); err == nil && voting(s) {
		s.group, s.spare = s.cluster.Members()[:groupOf], s.cluster.Member(groupOf)
		err = foundQuorum(ctx, s.addresses())
	}
	return err
}

// addresses are those of the servers, if there are any.
func (s *scene) addresses() []string { return addressesOf(s.group) }

func addressesOf(members []*servers.Member) (all []string) {
	for _, m := range members {
		all = append(all, m.Addr())
	}
	return all
}

// remains returns who stands in line at the end, as a new client sees it, once it has had time to sweep: when all workers have
// come to an end nobody else does.
func (s *scene) remains(ctx context.Context) (*truth, error) {
	c, err := backend.Open(ctx, s.address(s.addresses()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	h, err := mutex.New(c, "sweeper").Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	for limit := time.Now().Add(10 * s.session); ; time.Sleep(s.session / 4) {
		t, err := standingOn(ctx, c)
		if err != nil || len(t.nodes) == 0 || time.Now().After(limit) {
			return t, err
		}
	}
}

func standingOn(ctx context.Context, c *coord.Client) (*truth, error) {
	lines, err := c.Lines(ctx, "")
	if err != nil {
		return nil, err
	}
	lines = slices.DeleteFunc(lines, func(name string) bool { return name == "sweeper" })
	t := &truth{}
	for _, name := range lines {
		nodes, err := c.Line(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			t.nodes = append(t.nodes, &standing{line: name, node: n.ID, kind: n.Kind})
		}
	}
	return t, nil
}
