package drivertest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/group"
	"github.com/turnwise/turnwise/recipes/shards"
)

var groups = []scenario{
	{name: "all see who comes and goes, in one order", run: membersComeAndGo},
	{name: "a member that dies is gone, and has heard of it before", run: memberDies},
	{name: "shards have one owner each, whoever comes and goes", run: shardsMove},
}

// seesMembers waits until a watcher sees just these members.
func (s *scene) seesMembers(g *group.Group, what string, want ...string) (last group.View) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.outlives())
	defer cancel()
	for v, err := range g.Watch(ctx) {
		if err != nil {
			continue
		}
		last = v
		var data []string
		for _, m := range v.Members {
			data = append(data, string(m.Data))
		}
		if slices.Equal(data, want) {
			return v
		}
	}
	s.Fatalf("%s: the group has %v, want %v", what, brief(last.Members...), want)
	return last
}

func (s *scene) member(g *group.Group, data string) *coord.Hold {
	s.Helper()
	h, err := g.Join(s.ctx, []byte(data))
	if err != nil {
		s.Fatalf("join the group: %v", err)
	}
	return h
}

func membersComeAndGo(s *scene) {
	var groups []*group.Group
	for _, c := range s.clients(3) {
		groups = append(groups, group.New(c, s.line))
	}
	var holds []*coord.Hold
	var want []string
	for i := range 6 {
		want = append(want, fmt.Sprint("member ", i))
		holds = append(holds, s.member(groups[i%3], want[i]))
	}
	var before group.View
	for i, g := range groups {
		v := s.seesMembers(g, "all have come", want...)
		if i > 0 && !slices.EqualFunc(v.Members, before.Members, func(a, b coord.Node) bool { return a.ID == b.ID && a.Token == b.Token }) {
			s.Errorf("one sees %v, another one %v", brief(v.Members...), brief(before.Members...))
		}
		before = v
	}
	if err := groups[1].Update(s.ctx, holds[1], []byte("another")); err != nil {
		s.Fatalf("update: %v", err)
	}
	s.release(holds[3])
	want[1] = "another"
	want = slices.Delete(want, 3, 4)
	for _, g := range groups {
		if v := s.seesMembers(g, "one has gone", want...); v.Number <= before.Number {
			s.Errorf("number %d, after %d", v.Number, before.Number)
		}
	}
	for _, h := range holds {
		_ = h.Release()
	}
	s.seesMembers(groups[0], "all have gone")
}

func memberDies(s *scene) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	stays := group.New(s.clients(1)[0], s.line)
	h := s.member(group.New(c, s.line), "dies")
	s.release(s.member(stays, "comes and goes"))
	s.seesMembers(stays, "one is there", "dies")
	l.Expire(s, w.last())
	s.seesMembers(stays, "its session has ended")
	<-h.Context().Done()
}

// shared is who works on which shard.
type shared struct {
	*scene
	all sync.WaitGroup

	mu      sync.Mutex
	owners  map[int]string
	tokens  [manyShards]coord.Token
	expired string // whose session was ended from outside: others may be let in before he hears of it
}

const manyShards = 32 // so that no member is left without any by chance

// run has a member work on its shards until it is stopped.
func (s *shared) run(c *coord.Client, who string) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	s.all.Go(func() {
		defer close(ended)
		err := shards.New(c, s.line, manyShards).Run(ctx, func(ctx context.Context, shard int, h *coord.Hold) error {
			s.begins(who, shard, h.Token())
			<-ctx.Done()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.owners[shard] == who {
				delete(s.owners, shard)
			}
			return nil
		})
		if err != nil && s.ctx.Err() == nil {
			s.Errorf("%s: %v", who, err)
		}
	})
	return func() { cancel(); <-ended }
}

func (s *shared) begins(who string, shard int, token coord.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.owners[shard]; other != "" && other != s.expired || token <= s.tokens[shard] {
		s.Errorf("%s has shard %d with token %d, beside %q, whose token was %d", who, shard, token, other, s.tokens[shard])
	}
	s.owners[shard], s.tokens[shard] = who, token
}

// settled waits until these members own all shards, and the last of them some that it has got since the
// tokens were these.
func (s *shared) settled(what string, before [manyShards]coord.Token, members ...string) {
	s.Helper()
	s.eventually(s.outlives(), what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		fresh := make(map[string]bool)
		for shard, who := range s.owners {
			if !slices.Contains(members, who) {
				return false
			}
			fresh[who] = fresh[who] || s.tokens[shard] > before[shard]
		}
		return len(s.owners) == manyShards && len(fresh) == len(members) && fresh[members[len(members)-1]]
	})
}

// shardsMove has members come, leave in good order and die, and looks that no shard has two owners, and each has one in the end.
func shardsMove(sc *scene) {
	s := &shared{scene: sc, owners: make(map[int]string)}
	var none [manyShards]coord.Token
	cs := s.clients(2)
	stopFirst := s.run(cs[0], "first")
	s.settled("one owns all", none, "first")
	stopSecond := s.run(cs[1], "second")
	s.settled("two own all", none, "first", "second")
	c, l, w := s.watchedClient()
	if l.Expire != nil {
		stopThird := s.run(c, "third")
		s.settled("three own all", none, "first", "second", "third")
		s.mu.Lock()
		before := s.tokens
		s.expired = "third"
		s.mu.Unlock()
		l.Expire(s, w.last())
		s.settled("the third has come again", before, "first", "second", "third")
		s.mu.Lock()
		s.expired = ""
		s.mu.Unlock()
		stopThird()
	}
	stopFirst()
	s.settled("one is left", none, "second")
	stopSecond()
	s.all.Wait()
}
