package drivertest

import (
	"context"
	"fmt"
	"maps"
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

// shardsMove has members come, leave in good order and die, and looks that no shard has two owners, and each has one in the end.
func shardsMove(s *scene) {
	const count = 32 // so that no member is left without any by chance
	var mu sync.Mutex
	owners := make(map[int]string)
	var tokens [count]coord.Token
	expired := "" // whose session was ended from outside: others may be let in before he hears of it
	var all sync.WaitGroup
	run := func(c *coord.Client, who string) (stop func()) {
		ctx, cancel := context.WithCancel(s.ctx)
		ended := make(chan struct{})
		all.Go(func() {
			defer close(ended)
			err := shards.New(c, s.line, count).Run(ctx, func(ctx context.Context, shard int, h *coord.Hold) error {
				mu.Lock()
				if other := owners[shard]; other != "" && other != expired || h.Token() <= tokens[shard] {
					s.Errorf("%s has shard %d with token %d, beside %q, whose token was %d", who, shard, h.Token(), owners[shard], tokens[shard])
				}
				owners[shard], tokens[shard] = who, h.Token()
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				if owners[shard] == who {
					delete(owners, shard)
				}
				return nil
			})
			if err != nil && s.ctx.Err() == nil {
				s.Errorf("%s: %v", who, err)
			}
		})
		return func() { cancel(); <-ended }
	}
	settled := func(what string, members ...string) {
		s.Helper()
		s.eventually(s.outlives(), what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			with := slices.Collect(maps.Values(owners))
			return len(owners) == count && !slices.ContainsFunc(members, func(who string) bool { return !slices.Contains(with, who) }) &&
				!slices.ContainsFunc(with, func(who string) bool { return !slices.Contains(members, who) })
		})
	}
	cs := s.clients(2)
	stopFirst := run(cs[0], "first")
	settled("one owns all", "first")
	stopSecond := run(cs[1], "second")
	settled("two own all", "first", "second")
	c, l, w := s.watchedClient()
	if l.Expire != nil {
		stopThird := run(c, "third")
		settled("three own all", "first", "second", "third")
		mu.Lock()
		before := slices.Max(tokens[:])
		expired = "third"
		mu.Unlock()
		l.Expire(s, w.last())
		s.eventually(s.outlives(), "the third has come again", func() bool {
			mu.Lock()
			defer mu.Unlock()
			again := 0
			for shard, who := range owners {
				if who == "third" && tokens[shard] < before {
					return false
				} else if who == "third" {
					again++
				}
			}
			return again > 0
		})
		settled("three own all again", "first", "second", "third")
		mu.Lock()
		expired = ""
		mu.Unlock()
		stopThird()
	}
	stopFirst()
	settled("one is left", "second")
	stopSecond()
	all.Wait()
}
