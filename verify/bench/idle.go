package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

// idleTTL is that of the sessions whose cost is measured: the default of most drivers.
const idleTTL = 10 * time.Second

// idle measures what a service has to do for so many sessions, each of which holds a line of its own and does nothing else.
func idle(b *bench, w *Work, window time.Duration, most int) ([]Result, error) {
	var results []Result
	for _, p := range roster() {
		if !b.plays(p) || !p.Ours || p.Together > 0 || p.Service == Files { // there the kernel tells who has died
			continue
		}
		for n := most / 5; n <= most; n *= 5 {
			r := Result{Work: w.Name, Case: fmt.Sprintf("%d sessions", n), Contestant: p.Name, Service: p.Service, Ours: true}
			columns, err := b.load(p, n, window)
			if err != nil {
				r.Error = err.Error()
			}
			r.Extra = columns
			fmt.Fprintf(b.log, "%s: %s %s %v %v\n", w.Name, r.Case, p.Service, columns, err)
			results = append(results, r)
		}
	}
	return results, b.ctx.Err()
}

// load opens n sessions and returns what the servers do for each of them, beyond what they do anyway.
func (b *bench) load(p *Contestant, n int, window time.Duration) ([]Column, error) {
	s, err := b.stage(false).service(b.ctx, p.Service)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(direct(b.ctx, s), window+3*time.Minute)
	defer cancel()
	measure := func() (busy time.Duration, memory float64, err error) {
		before, _, err := servers.TakenByAll() // they are our children
		if err == nil {
			err = pause(ctx, window, nil)
		}
		if err != nil {
			return 0, 0, err
		}
		after, memory, err := servers.TakenByAll()
		return after - before, memory, err
	}
	nobody, bare, err := measure()
	if err != nil {
		return nil, err
	}
	for range n {
		c, err := p.Open(ctx, Setting{Addr: s.addr, Timeout: idleTTL, Woken: new(atomic.Int64)})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		release, err := c.Acquire(ctx, Want{Kind: Lock, Line: freshLine()})
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if err := pause(ctx, min(window, idleTTL), nil); err != nil { // what comes with a new session is over
		return nil, err
	}
	busy, memory, err := measure()
	if err != nil {
		return nil, err
	}
	perSecond := float64(busy-nobody) / float64(time.Microsecond) / window.Seconds()
	return []Column{
		{"processor time a second", perSecond / float64(n), "µs"},
		{"memory", max(0, memory-bare) / float64(n), "bytes"},
	}, nil
}
