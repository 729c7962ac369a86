package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnwise/turnwise/coord/redis/quorum"
	"github.com/turnwise/turnwise/verify/servers"
)

// groupOf is how many servers vote. One more is there to take the place of another.
const groupOf = 3

// voting reports whether the service is several servers that store what a majority agrees to, and that can be emptied.
func voting(s *scene) bool { return s.service == "quorum" }

// emptied takes one member's data away for good, just when another is behind and the third fails. If the empty one voted,
// the first two would be a majority that knows nothing of what the third has agreed to. Then the empty member is healed.
// Meanwhile there are faults that all members outlive, and as soon as it is healed another one fails, so that its vote is
// needed.
func emptied(s *scene) (heal func() error, err error) {
	all := slices.Clone(s.group)
	s.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	empty, behind, third := all[0], all[1], all[2]
	behind.Kill() // if it were only stopped, it would later do what it was sent
	time.Sleep(about(s.session)(s))
	if err := s.empty(empty); err != nil {
		return nil, err
	}
	if err := s.strike(fault{name: "one is empty, one behind, one fails", lasts: longer, do: func(s *scene) (func() error, error) {
		heal := s.fail(third)
		return heal, start(behind)()
	}}); err != nil {
		return nil, err
	}
	return func() error {
		if err := s.meanwhile("one is healed", func() error { return healQuorum(s.addresses()) }); err != nil {
			return err
		}
		return s.strike(fault{name: "one was healed, one fails", lasts: longer, do: func(s *scene) (func() error, error) {
			return s.fail(all[1+s.random.IntN(2)]), nil
		}})
	}, nil
}

// replaced has another server take the place of one, which may have failed. Meanwhile there are faults that all members outlive. Then
// the name by which the workers know the old one leads to the new one, the old one comes back with the votes that it had, and another one fails,
// so that the vote of the new one is needed.
func replaced(s *scene) (heal func() error, err error) {
	i := s.random.IntN(len(s.group))
	old, next := s.group[i], s.spare
	group := slices.Clone(s.group)
	group[i] = next
	if err := flush(next); err != nil { // it may have been of the group before
		return nil, err
	}
	comesBack := func() error { return nil }
	if s.random.IntN(2) == 0 {
		old.Kill()
		comesBack = start(old)
	}
	return func() error {
		if err := s.meanwhile("one is replaced", func() error { return reformQuorum(addressesOf(group)) }); err != nil {
			return err
		}
		s.group, s.spare = group, old
		lead(s.slots, i, next)
		if err := comesBack(); err != nil {
			return err
		}
		return s.strike(fault{name: "one was replaced, one fails", lasts: longer, do: func(s *scene) (func() error, error) {
			return s.fail(s.group[(i+1+s.random.IntN(2))%len(s.group)]), nil
		}})
	}, nil
}

// meanwhile has faults happen that all members outlive, until something has been done.
func (s *scene) meanwhile(what string, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	var aside []fault
	for _, f := range faultsAside {
		if s.has(f) {
			aside = append(aside, f)
		}
	}
	for {
		select {
		case err := <-done:
			return err
		default:
		}
		f := aside[s.random.IntN(len(aside))]
		f.name = what + ": " + f.name
		if err := s.strike(f); err != nil {
			return err
		}
	}
}

// astray has the name of one server lead some workers, or all, to another one of the group: then two of their names are of one server.
func astray(s *scene) (heal func() error, err error) {
	i := s.random.IntN(len(s.group))
	other := s.group[(i+1+s.random.IntN(len(s.group)-1))%len(s.group)]
	slots := s.someSlots()
	lead(slots, i, other)
	return healed(func() { lead(slots, i, s.group[i]) }), nil
}

// lead has the name of a server lead workers to a member from now on.
func lead(slots []*slot, i int, to *servers.Member) {
	for _, slot := range slots {
		slot.proxies[i].Lead(to.Addr())
		slot.proxies[i].Cut()
	}
}

// appendNothing has one server write nothing down for a while, and then crash: it starts with what it had before. A single one has
// forgotten then, and says so.
func appendNothing(s *scene) (heal func() error, err error) {
	m := s.any()
	if err := configure(m, "appendonly", "no"); err != nil {
		return nil, err
	}
	return func() error {
		m.Kill()
		s.forgot = s.forgot || !voting(s)
		return start(m)()
	}, nil
}

// empty takes away what a member has in memory and on disk.
func (s *scene) empty(m *servers.Member) error {
	if s.random.IntN(2) == 0 {
		return flush(m)
	}
	m.Kill()
	if err := os.RemoveAll(filepath.Join(m.Dir(), "data")); err != nil {
		return err
	}
	return start(m)()
}

// fail ends a member or stops it, until it is healed.
func (s *scene) fail(m *servers.Member) (heal func() error) {
	if s.random.IntN(2) == 0 {
		m.Kill()
		return start(m)
	}
	m.Freeze()
	return healed(m.Thaw)
}

func flush(m *servers.Member) error {
	return command(m, func(ctx context.Context, c *goredis.Client) error { return c.FlushAll(ctx).Err() })
}

func configure(m *servers.Member, setting, value string) error {
	return command(m, func(ctx context.Context, c *goredis.Client) error { return c.ConfigSet(ctx, setting, value).Err() })
}

func command(m *servers.Member, do func(context.Context, *goredis.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := goredis.NewClient(&goredis.Options{Addr: m.Addr()})
	return errors.Join(do(ctx, c), c.Close())
}

// foundQuorum lists the members by their own addresses, by which an operator names them; workers reach them through proxies.
func foundQuorum(ctx context.Context, addrs []string) error {
	q, err := quorum.Open(ctx, addrs)
	if err != nil {
		return err
	}
	return q.Close()
}

// These do what an operator does, as the documentation of coord/redis/quorum says.

func healQuorum(addrs []string) error   { return operate(addrs, (*quorum.Store).Heal) }
func reformQuorum(addrs []string) error { return operate(addrs, (*quorum.Store).Reform) }

func operate(addrs []string, do func(*quorum.Store, context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := quorum.Open(ctx, addrs)
	if err != nil {
		return err
	}
	defer q.Close()
	return do(q, ctx)
}
