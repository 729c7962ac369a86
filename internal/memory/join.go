package memory

import (
	"context"
	"errors"

	"github.com/turnwise/turnwise/coord/driver"
)

func (s *session) Join(ctx context.Context, e driver.Entry) (driver.Node, []driver.Node, error) {
	for {
		id, epoch := s.newNode()
		a, err := s.ask(ctx, Request{Op: "join", Line: e.Line, Node: id, Changes: true},
			func() answer { return s.service().join(s.id, epoch, id, e) })
		if err != nil && !errors.Is(err, driver.ErrSessionEnded) {
			a, err = s.settle(ctx, id, e)
		}
		switch {
		case err != nil:
			return driver.Node{}, nil, err
		case a.refused:
			s.sawEpoch(a.epoch)
		case a.busy:
			return driver.Node{}, nil, driver.ErrBusy
		case a.found:
			s.saw(a.node.Node, a.ahead)
			return a.node.Node, a.ahead, nil
		}
	}
}

func (s *session) newNode() (id string, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joins++
	return nodeID(s.id, s.joins), s.epoch
}

func (s *session) sawEpoch(epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = max(s.epoch, epoch)
}

// settle finds out what became of a join whose answer was lost, in the background if ctx ends first; then a node that
// was made is taken away. An answer that found nothing says there is none, and never will be.
func (s *session) settle(ctx context.Context, id string, e driver.Entry) (answer, error) {
	type outcome struct {
		answer
		err error
	}
	settled := make(chan outcome)
	s.background(ctx, func(bg context.Context) {
		a, err := s.settleNow(bg, id, e)
		select {
		case settled <- outcome{a, err}:
		case <-ctx.Done():
			if a.found {
				s.leave(bg, a.node.Node, false)
			}
		}
	})
	select {
	case o := <-settled:
		return o.answer, o.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-s.ctx.Done():
		return answer{}, driver.ErrSessionEnded
	}
}

func (s *session) settleNow(ctx context.Context, id string, e driver.Entry) (answer, error) {
	if s.profile() == Etcd {
		// The join may be applied after any number of looks that do not find it; so first make sure that it cannot.
		a, err := s.insist(ctx, Request{Op: "bump"}, func() answer { return s.service().bump(s.id) })
		if err != nil {
			return answer{}, s.ended(err)
		}
		s.sawEpoch(a.epoch)
	}
	a, err := s.insist(ctx, Request{Op: "find", Line: e.Line, Node: id}, func() answer { return s.service().find(s.id, id) })
	if err != nil || !a.found {
		return answer{}, s.ended(err)
	}
	me := a.node
	a, err = s.insist(ctx, Request{Op: "look", Line: e.Line, Node: id}, func() answer { return s.service().look(s.id, id, e.Sight) })
	if err != nil {
		return answer{}, s.ended(err)
	}
	if !a.found { // an operator was quick
		return answer{}, nil
	}
	a.node = me
	if e.Try && len(a.ahead) > 0 {
		s.leave(ctx, me.Node, false)
		return answer{busy: true}, nil
	}
	return a, nil
}

// ended puts an error on the session's own context into the contract's words.
func (s *session) ended(err error) error {
	if err != nil && s.ctx.Err() != nil {
		return driver.ErrSessionEnded
	}
	return err
}

func (s *session) Leave(ctx context.Context, me driver.Node, held bool) error {
	s.saw(me, nil)
	err := s.leave(ctx, me, held)
	if err != nil && !errors.Is(err, driver.ErrSessionEnded) {
		s.background(ctx, func(bg context.Context) { s.leave(bg, me, held) })
	}
	return err
}

// leave takes a node away, however often it has to ask.
func (s *session) leave(ctx context.Context, me driver.Node, held bool) error {
	_, err := s.insist(ctx, Request{Op: "leave", Line: me.Line, Node: me.ID, Changes: true},
		func() answer { return s.service().leave(s.id, me.ID, held) })
	return err
}

func (s *session) Amend(ctx context.Context, me driver.Node) (driver.Node, error) {
	s.beginAmending(me.ID)
	after, err := s.amend(ctx, me)
	s.endAmending(me.ID, err == nil && after.ID == me.ID)
	return after, err
}

func (s *session) amend(ctx context.Context, me driver.Node) (driver.Node, error) {
	a, err := s.insist(ctx, Request{Op: "find", Line: me.Line, Node: me.ID}, func() answer { return s.service().find(s.id, me.ID) })
	version := a.node.version
	for err == nil && a.found {
		a, err = s.ask(ctx, Request{Op: "amend", Line: me.Line, Node: me.ID, Changes: true},
			func() answer { return s.service().amend(s.id, me.ID, version, me.Kind, me.Data) })
		switch {
		case err == errUnknown: // a late one fails, since it is of a version that has passed
			a, err = s.insist(ctx, Request{Op: "find", Line: me.Line, Node: me.ID}, func() answer { return s.service().find(s.id, me.ID) })
			if err == nil && a.found && a.node.version > version {
				return a.node.Node, nil
			}
		case err == nil && a.found && !a.refused:
			return a.node.Node, nil
		case err == nil && a.refused:
			version = a.node.version
		}
	}
	if err == nil {
		err = driver.ErrRemoved
	}
	return me, err
}

// beginAmending and endAmending let those who watch over the node know that it may go and yet stay.
func (s *session) beginAmending(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.amending[origin(id)]++
}

func (s *session) endAmending(id string, stays bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.amending[origin(id)]--; s.amending[origin(id)] == 0 {
		delete(s.amending, origin(id))
	}
	if shared := s.watches[id]; shared != nil && !stays {
		shared.renamed = true // perhaps: its watchers ask
	}
}
