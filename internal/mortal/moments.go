package mortal

import (
	"context"
	"fmt"
	"sync"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/recipes/once"
)

// Moments is a driver whose requests pass through a function, which may end the process before, between or after them. They are to
// "open" a session, to "join", to "wait", to "look" at a memo, to "note" one and to "leave", each with how often that was asked for
// by then: "look 2".
type Moments struct {
	driver.Driver
	Asked func(moment string, do func() error) error

	mu    sync.Mutex
	times map[string]int
}

// Ask passes on a request, or something else that a process does.
func (m *Moments) Ask(what string, do func() error) error {
	m.mu.Lock()
	if m.times == nil {
		m.times = make(map[string]int)
	}
	m.times[what]++
	moment := fmt.Sprint(what, " ", m.times[what])
	m.mu.Unlock()
	return m.Asked(moment, do)
}

// Open is asked for as "open". What the session and its places are asked for passes through the function as well.
func (m *Moments) Open(ctx context.Context) (driver.Session, error) {
	var s driver.Session
	err := m.Ask("open", func() (err error) { s, err = m.Driver.Open(ctx); return err })
	if err != nil {
		return nil, err
	}
	return session{s, m}, nil
}

// Memo is asked for as "look".
func (m *Moments) Memo(ctx context.Context, line string) ([]byte, error) {
	var memo []byte
	err := m.Ask("look", func() (err error) { memo, err = m.Driver.Memo(ctx, line); return err })
	if err != nil {
		return nil, err
	}
	return memo, nil
}

type session struct {
	driver.Session
	m *Moments
}

func (s session) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	var me driver.Place
	var ahead []driver.Node
	err := s.m.Ask("join", func() (err error) { me, ahead, err = s.Session.Join(ctx, e); return err })
	if err != nil {
		return nil, nil, err
	}
	return place{me, s.m}, ahead, nil
}

type place struct {
	driver.Place
	m *Moments
}

func (p place) Await(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	var ahead []driver.Node
	err := p.m.Ask("wait", func() (err error) { ahead, err = p.Place.Await(ctx, wait); return err })
	if err != nil {
		return nil, err
	}
	return ahead, nil
}

func (p place) Remember(ctx context.Context, memo []byte) error {
	return p.m.Ask("note", func() error { return p.Place.Remember(ctx, memo) })
}

func (p place) Leave(ctx context.Context, held bool) error {
	return p.m.Ask("leave", func() error { return p.Place.Leave(ctx, held) })
}

// MomentsOfSlot are all that once.Job.Do asks of a driver where somebody stands ahead, in order, and the job.
func MomentsOfSlot(p once.Policy) []string {
	all := []string{"look 1", "open 1", "join 1", "wait 1", "look 2"}
	if p == once.AtMostOnce {
		return append(all, "note 1", "job 1", "note 2", "leave 1")
	}
	return append(all, "job 1", "note 1", "leave 1")
}
