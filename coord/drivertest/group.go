package drivertest

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/group"
)

var groups = []scenario{
	{name: "all see who comes and goes, in one order", run: membersComeAndGo},
	{name: "a member that dies is gone, and has heard of it before", run: memberDies},
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
