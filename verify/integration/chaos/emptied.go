package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnwise/turnwise/coord/redis/quorum"
	"github.com/turnwise/turnwise/verify/servers"
)

// voting reports whether the service is several servers that store what a majority agrees to, and that can be emptied.
func voting(s *scene) bool { return s.service == "quorum" }

// emptied takes one member's data away for good, just when another is behind and the third fails. If the empty one voted,
// the first two would be a majority that knows nothing of what the third has agreed to. Then the empty member is healed.
// Meanwhile there are faults that all members outlive, and as soon as it is healed another one fails, so that its vote is
// needed.
func emptied(s *scene) (heal func() error, err error) {
	all := s.cluster.Members()
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
		healed := make(chan error, 1)
		go func() { healed <- healQuorum(s.cluster.Addrs()) }()
		for {
			select {
			case err := <-healed:
				if err != nil {
					return err
				}
				return s.strike(fault{name: "one was healed, one fails", lasts: longer, do: func(s *scene) (func() error, error) {
					return s.fail(all[1+s.random.IntN(2)]), nil
				}})
			default:
			}
			f := faultsAside[s.random.IntN(len(faultsAside))]
			f.name = "one is healed: " + f.name
			if err := s.strike(f); err != nil {
				return err
			}
		}
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := goredis.NewClient(&goredis.Options{Addr: m.Addr()})
	return errors.Join(c.FlushAll(ctx).Err(), c.Close())
}

// foundQuorum lists the members by their own addresses, by which an operator names them; workers reach them through proxies.
func foundQuorum(ctx context.Context, addrs []string) error {
	q, err := quorum.Open(ctx, addrs)
	if err != nil {
		return err
	}
	return q.Close()
}

// healQuorum does what an operator does, as the documentation of coord/redis/quorum says.
func healQuorum(addrs []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := quorum.Open(ctx, addrs)
	if err != nil {
		return err
	}
	defer q.Close()
	return q.Heal(ctx)
}
