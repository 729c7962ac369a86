package main

import (
	"context"
	"errors"
	"fmt"
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
	a := audience{watchers, make(chan coord.Token, watchers*100)}
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
		all.Go(func() { a.watch(watching, g) })
	}
	now, err := g.Members(ctx)
	if err != nil {
		return nil, err
	}
	last := now[len(now)-1].Token
	if err := a.sees(ctx, last); err != nil {
		return nil, err
	}
	for range b.rounds {
		round, err := a.round(ctx, g, last, s.requests)
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// audience is so many who watch a group.
type audience struct {
	watchers int
	sights   chan coord.Token // the last member that one of them sees
}

func (a audience) watch(ctx context.Context, g *group.Group) {
	for v, err := range g.Watch(ctx) {
		if err == nil && len(v.Members) > 0 {
			a.sights <- v.Members[len(v.Members)-1].Token
		}
	}
}

// sees waits until all see a group whose last member is that one.
func (a audience) sees(ctx context.Context, wanted coord.Token) error {
	for n := 0; n < a.watchers; {
		select {
		case last := <-a.sights:
			if last == wanted {
				n++
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d have seen a change: %w", n, a.watchers, ctx.Err())
		}
	}
	return nil
}

// round has one more join and leave a few times. requests counts those of the server, and may be nil.
func (a audience) round(ctx context.Context, g *group.Group, last coord.Token, requests func() (float64, error)) (s Sample, err error) {
	count := func() (n float64) {
		if requests != nil && err == nil {
			n, err = requests()
		}
		return n
	}
	before := count()
	var took time.Duration
	change := func(do func() (last coord.Token, err error)) {
		if err != nil {
			return
		}
		began := time.Now()
		var now coord.Token
		if now, err = do(); err == nil {
			err = a.sees(ctx, now)
		}
		took += time.Since(began)
		_ = pause(ctx, 100*time.Millisecond, nil) // nobody looks twenty times a second
	}
	for range changes {
		var h *coord.Hold
		change(func() (_ coord.Token, err error) {
			if h, err = g.Join(ctx, nil); err != nil {
				return 0, err
			}
			return h.Token(), nil
		})
		change(func() (coord.Token, error) { return last, h.Release() })
	}
	return sampled(2*changes, took, count()-before, 0), err
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
	return errors.Join(errs...)
}
