package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"
)

// bench is one run of the program.
type bench struct {
	ctx    context.Context
	log    io.Writer
	stages map[bool]*stage // by whether they are on disk
	rounds int
	only   *regexp.Regexp // of "service/contestant"
}

func (b *bench) stage(onDisk bool) *stage {
	if b.stages == nil {
		b.stages = map[bool]*stage{}
	}
	if b.stages[onDisk] == nil {
		b.stages[onDisk] = &stage{onDisk: onDisk}
	}
	return b.stages[onDisk]
}

func (b *bench) close() {
	for _, s := range b.stages {
		s.close()
	}
}

func (b *bench) plays(c *Contestant) bool {
	return b.only == nil || b.only.MatchString(c.call())
}

// work measures one work. A contestant that fails is reported with its error, and the others go on.
func (b *bench) work(w *Work) ([]Result, error) {
	if w.Special != nil {
		return w.Special(b, w)
	}
	var all []Result
	for _, c := range w.Cases {
		all = append(all, b.rows(w, c)...)
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// suits reports whether a contestant can do what the case is about.
func (c *Case) suits(p *Contestant) bool {
	return p.does(c.Kinds...) && (c.Bare || !p.Bare) && (c.Together || p.Together == 0) && !slices.Contains(c.Skip, p.Name) && (p.Place != nil || c.Scenario.Shape == Turns)
}

// rows measures all contestants that can do what the case is about.
func (b *bench) rows(w *Work, c Case) []Result {
	return b.measure(w, c, slices.DeleteFunc(roster(), func(p *Contestant) bool { return !b.plays(p) || !w.on(p.Service) || !c.suits(p) }))
}

// measure has contestants play in turn, round after round, so that what else the machine does affects them alike.
func (b *bench) measure(w *Work, c Case, players []*Contestant) []Result {
	results := make([]Result, len(players))
	for i, p := range players {
		results[i] = Result{Work: w.Name, Case: c.Name, Contestant: p.Name, Service: p.Service, Ours: p.Ours, Bare: p.Bare}
	}
	rounds := b.rounds
	if c.Rounds > 0 && rounds > 1 {
		rounds = min(c.Rounds, max(rounds, c.Rounds/2))
	}
	for round := range rounds {
		for i, p := range players {
			r := &results[i]
			if r.Error != "" || b.ctx.Err() != nil {
				continue
			}
			s, err := b.once(w, c, p, false)
			if err != nil {
				r.Error = err.Error()
				fmt.Fprintf(b.log, "%s, %s: %s/%s failed: %v\n", w.Name, c.Name, p.Service, p.Name, err)
				continue
			}
			r.Rounds = append(r.Rounds, s)
			fmt.Fprintf(b.log, "%s, %s, round %d of %d: %s/%s %v, %.2f requests, %.2f wake-ups\n",
				w.Name, c.Name, round+1, rounds, p.Service, p.Name, s.Per, s.Requests, s.Wakes)
		}
	}
	for i, p := range players {
		if !c.Count || results[i].Error != "" || p.Program != nil {
			continue
		}
		if s, err := b.once(w, c, p, true); err != nil {
			fmt.Fprintf(b.log, "%s, %s: counting %s/%s failed: %v\n", w.Name, c.Name, p.Service, p.Name, err)
		} else {
			results[i].Counted = &s
		}
	}
	return results
}

func (b *bench) once(w *Work, c Case, p *Contestant, counting bool) (Sample, error) {
	s, err := b.stage(w.Disk).service(b.ctx, p.Service)
	if err != nil {
		return Sample{}, err
	}
	ctx, cancel := context.WithTimeout(b.ctx, 90*time.Second)
	defer cancel()
	addr := s.addr
	if counting {
		var end func()
		if ctx, addr, end, err = through(ctx, s); err != nil {
			return Sample{}, err
		}
		defer end()
	} else {
		ctx = direct(ctx, s)
	}
	scenario := c.Scenario
	scenario.Line = freshLine()
	return run(ctx, p, addr, scenario, s.requests)
}
