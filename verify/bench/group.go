package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/group"
)

// changes is how often a member comes and goes again in a round.
const changes = 10

// membership measures how soon all who watch a group of so many members know that one has come, or gone.
func membership(b *bench, w *Work, watchers, most int) ([]Result, error) {
	var results []Result
	for n := most / 10; n <= most; n *= 10 {
		for _, p := range roster() {
			if !b.plays(p) || !p.Ours || p.Together > 0 || b.ctx.Err() != nil {
				continue
			}
			r := Result{Work: w.Name, Case: fmt.Sprintf("%d members", n), Contestant: p.Name, Service: p.Service, Ours: true}
			var err error
			if r.Rounds, err = b.watched(p, n, watchers); err != nil {
				r.Error = err.Error()
			}
			fmt.Fprintf(b.log, "%s: %s %s %v %v\n", w.Name, r.Case, p.Service, r.Median(), err)
			results = append(results, r)
		}
	}
	return results, b.ctx.Err()
}

// watched has members join on one connection, and watchers watch on one each. A round is the mean of several changes.
func (b *bench) watched(p *Contestant, members, watchers int) (rounds []Sample, err error) {
	s, err := b.stage(false).service(b.ctx, p.Service)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(direct(b.ctx, s), 3*time.Minute)
	defer cancel()
	line := freshLine()
	open := func() (*group.Group, func(), error) {
		c, err := p.Open(ctx, Setting{Addr: s.addr, Timeout: sessions, Woken: new(atomic.Int64)})
		if err != nil {
			return nil, nil, err
		}
		return group.New(c.(turnwise).client, line), c.Close, nil
	}
	g, closing, err := open()
	if err != nil {
		return nil, err
	}
	defer closing()
	if err := joinAll(ctx, g, members); err != nil {
		return nil, err
	}
	sights := make(chan coord.Token, watchers*100) // the last member that somebody sees
	var all sync.WaitGroup
	defer all.Wait()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for range watchers {
		g, closing, err := open()
		if err != nil {
			return nil, err
		}
		defer closing()
		all.Go(func() {
			for v, err := range g.Watch(watching) {
				if err == nil && len(v.Members) > 0 {
					sights <- v.Members[len(v.Members)-1].Token
				}
			}
		})
	}
	// A change has been seen when each watcher has.
	seen := func(wanted coord.Token) error {
		for n := 0; n < watchers; {
			select {
			case last := <-sights:
				if last == wanted {
					n++
				}
			case <-ctx.Done():
				return fmt.Errorf("%d of %d have seen a change: %w", n, watchers, ctx.Err())
			}
		}
		return nil
	}
	now, err := g.Members(ctx)
	if err != nil {
		return nil, err
	}
	last := now[len(now)-1].Token
	if err := seen(last); err != nil {
		return nil, err
	}
	for range b.rounds {
		var took time.Duration
		var requests [2]float64
		if s.requests != nil {
			requests[0], err = s.requests()
		}
		for range changes {
			came := time.Now()
			h, err := g.Join(ctx, nil)
			if err != nil {
				return nil, err
			}
			if err := seen(h.Token()); err != nil {
				return nil, err
			}
			took += time.Since(came)
			_ = pause(ctx, 100*time.Millisecond, nil) // nobody looks twenty times a second
			went := time.Now()
			if err := h.Release(); err != nil {
				return nil, err
			}
			if err := seen(last); err != nil {
				return nil, err
			}
			took += time.Since(went)
			_ = pause(ctx, 100*time.Millisecond, nil)
		}
		if s.requests != nil && err == nil {
			requests[1], err = s.requests()
		}
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, sampled(2*changes, took, requests[1]-requests[0], 0))
	}
	return rounds, nil
}

// joinAll adds members, some side by side.
func joinAll(ctx context.Context, g *group.Group, members int) error {
	const atOnce = 50
	errs := make([]error, min(atOnce, members))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for n := i; n < members && errs[i] == nil; n += atOnce {
				_, errs[i] = g.Join(ctx, []byte("10.0.0.1:8080"))
			}
		})
	}
	all.Wait()
	for _, err := range slices.Backward(errs) {
		if err != nil {
			return err
		}
	}
	return nil
}
