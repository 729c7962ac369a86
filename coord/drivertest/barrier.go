package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/barrier"
)

var barriers = []scenario{
	{name: "all go on in the same round", run: roundsGrow},
	{name: "who dies inside is left behind", run: oneInsideDies},
}

// Four come again and again to a barrier for three.
func roundsGrow(s *scene) {
	const size, rounds = 3, 6
	ctx, enough := context.WithCancel(s.ctx)
	defer enough()
	var mu sync.Mutex
	of := make(map[uint64]int)
	var all sync.WaitGroup
	for _, c := range s.clients(size + 1) {
		all.Go(func() {
			for last := uint64(0); last < rounds; {
				round, err := barrier.New(c, s.line, size).Wait(ctx)
				switch {
				case ctx.Err() != nil:
					return
				case errors.Is(err, coord.ErrLost): // on a machine that is too busy to renew its session
					continue
				case err != nil || round <= last:
					s.Errorf("round %d after %d, %v", round, last, err)
					enough()
					return
				}
				mu.Lock()
				of[round]++
				mu.Unlock()
				last = round
			}
			enough()
		})
	}
	all.Wait()
	if s.ctx.Err() != nil {
		s.Errorf("the rounds stopped: %v", of)
	}
	for round, n := range of {
		if n > size {
			s.Errorf("%d went on in round %d of %d", n, round, size)
		}
	}
	s.forgotten(s.clients(1)[0])
}

func oneInsideDies(s *scene) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	stays := s.clients(1)[0]
	dies := make(chan error, 1)
	go func() {
		dies <- barrier.New(c, s.line, 2).Do(s.ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	}()
	in, err := barrier.New(stays, s.line, 2).Enter(s.ctx)
	if err != nil {
		s.Fatalf("Enter: %v", err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := barrier.New(stays, s.line, 2).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("a third one: %v", err)
	}
	l.Expire(s, w.last())
	if err := <-dies; !errors.Is(err, coord.ErrLost) {
		s.Errorf("who has died inside: %v, want ErrLost", err)
	}
	if err := in.Leave(s.ctx); err != nil {
		s.Errorf("Leave: %v", err)
	}
	s.forgotten(stays)
}
