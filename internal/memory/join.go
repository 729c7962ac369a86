package memory

import (
	"context"
	"errors"
	"sync"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// place is a contender of ours.
type place struct {
	*session
	sight driver.Sight
	last  bool

	// Guarded by session.mu.
	node     driver.Node
	nearest  string // whom its last look showed right ahead: a mark counts only if nobody can be in between
	amending int    // how many amendments are under way

	over sync.Once
}

func (p *place) Node() driver.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

func (p *place) Last() bool { return p.last }

// saw remembers what a look showed.
func (p *place) saw(ahead []driver.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nearest = ""
	if n := len(ahead); n > 0 {
		p.nearest = ahead[n-1].ID
	}
}

func (s *session) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	s.stand(1)
	p, ahead, err := s.join(ctx, e)
	if err != nil {
		s.stand(-1)
		return nil, nil, err
	}
	return p, ahead, nil
}

func (s *session) join(ctx context.Context, e driver.Entry) (*place, []driver.Node, error) {
	for {
		id, epoch := s.newNode()
		a, err := s.once(ctx, Request{Op: "join", Line: e.Line, Node: id, Changes: true},
			func() answer { return s.service().join(s.id, epoch, id, e) })
		if err != nil && !errors.Is(err, driver.ErrSessionEnded) {
			a, err = s.settle(ctx, id, e)
		}
		switch {
		case err != nil:
			return nil, nil, err
		case a.refused:
			s.sawEpoch(a.epoch)
		case a.busy:
			return nil, nil, driver.ErrBusy
		case a.found:
			p := &place{session: s, sight: e.Sight, last: a.last, node: a.node.Node}
			p.saw(a.ahead)
			return p, a.ahead, nil
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

// settle finds out what became of a join whose answer was lost. If ctx ends first it goes on in the background, and
// takes away a node that was made. An answer that found nothing means that there is none, and never will be.
func (s *session) settle(ctx context.Context, id string, e driver.Entry) (answer, error) {
	chore := s.chore(ctx)
	return driverkit.Deliver(ctx, s.life,
		func(func() bool) (answer, error) { return s.settleNow(chore, id, e) },
		func(a answer) {
			if a.found {
				_ = s.takeAway(chore, a.node.Node, false)
			}
		})
}

func (s *session) settleNow(ctx context.Context, id string, e driver.Entry) (answer, error) {
	if s.profile() == Etcd {
		// The join may be applied after any number of looks that do not find it; so first make sure that it no longer can be.
		a, err := s.insist(ctx, Request{Op: "bump"}, func() answer { return s.service().bump(s.id) })
		if err != nil {
			return answer{}, err
		}
		s.sawEpoch(a.epoch)
	}
	a, err := s.insist(ctx, Request{Op: "find", Line: e.Line, Node: id}, func() answer { return s.service().find(s.id, id) })
	if err != nil || !a.found {
		return answer{}, err
	}
	me := a.node
	a, err = s.insist(ctx, Request{Op: "look", Line: e.Line, Node: id}, func() answer { return s.service().look(s.id, id, e.Sight) })
	if err != nil {
		return answer{}, err
	}
	if !a.found { // an operator was quick
		return answer{}, nil
	}
	a.node = me
	if e.InVain(a.ahead) {
		_ = s.takeAway(ctx, me.Node, false)
		return answer{busy: true}, nil
	}
	return a, nil
}
