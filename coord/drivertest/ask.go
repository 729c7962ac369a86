package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// A holder is asked to let go, and does.
func holderIsAsked(s *scene) {
	cs := s.clients(3)
	h, err := mutex.New(cs[0], s.line).Lock(s.ctx)
	if err != nil {
		s.Fatalf("Lock: %v", err)
	}
	waits := mutex.New(cs[1], s.line).LockChan(s.ctx)
	asked := make(chan error, 1)
	go func() { asked <- cs[2].Ask(s.ctx, s.line, "please") }()
	n, err := h.Wanted(s.ctx)
	if err != nil || n.Asks != "please" || n.Token <= h.Token() {
		s.Errorf("the holder hears that it is wanted by %+v, %v", n, err)
	}
	if err := h.Release(); err != nil {
		s.Errorf("Release: %v", err)
	}
	r := <-waits
	if r.Err != nil {
		s.Fatalf("the one who waited: %v", r.Err)
	}
	if err := r.Hold.Release(); err != nil {
		s.Errorf("Release: %v", err)
	}
	if err := <-asked; err != nil {
		s.Errorf("Ask: %v", err)
	}
	s.gone(s.line)
}

// Of three who would lead whenever they can, the best one leads in the end, whoever came first.
func bestLeads(s *scene) {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	led := make(chan int, 100)
	ended := make(chan error, 3)
	for rank, c := range s.clients(3) {
		go func() {
			ended <- election.New(c, s.line, election.Rank(rank)).Run(ctx, []byte("value"), func(ctx context.Context, _ *election.Term) error {
				led <- rank
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		if rank == 0 {
			<-led
		}
	}
	for limit := time.After(s.outlives()); ; {
		var rank int
		select {
		case rank = <-led:
		case <-limit:
			s.Fatal("the best one does not lead")
		}
		if rank == 2 {
			break
		}
	}
	if n, err := election.New(s.clients(1)[0], s.line).Leader(s.ctx); err != nil || n.Rank != 2 || string(n.Data) != "value" {
		s.Errorf("the leader is %s, %v", brief(n), err)
	}
	stop()
	for range 3 {
		if err := <-ended; err != nil && !errors.Is(err, coord.ErrUnavailable) { // as on a busy machine
			s.Errorf("Run: %v", err)
		}
	}
	s.gone(s.line)
}
