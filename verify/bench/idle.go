package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
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
		before, _, err := byServers()
		if err == nil {
			err = pause(ctx, window, nil)
		}
		if err != nil {
			return 0, 0, err
		}
		after, memory, err := byServers()
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

// byServers returns the processor time that the processes below this one have used so far, and the memory that they have. They are
// the servers.
func byServers() (busy time.Duration, memory float64, err error) {
	const tick = time.Second / 100 // Linux says so to programs, whatever its own is
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return 0, 0, fmt.Errorf("no processes are seen: %w", err)
	}
	parents, fields := map[int]int{}, map[int][]string{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil { // it has ended
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		fields[pid] = strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the state on, the third of all
		parents[pid], _ = strconv.Atoi(fields[pid][1])
	}
	number := func(pid, field int) float64 {
		n, _ := strconv.ParseFloat(fields[pid][field-3], 64)
		return n
	}
	for pid := range fields {
		if slices.Contains(ancestors(parents, pid), os.Getpid()) {
			busy += time.Duration(number(pid, 14)+number(pid, 15)) * tick
			memory += 1024 * share(pid)
		}
	}
	return busy, memory, nil
}

// share returns the kilobytes that a process has, where those that it shares are divided among all who have them.
func share(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	_, behind, _ := strings.Cut(string(text), "\nPss:")
	if words := strings.Fields(behind); len(words) > 0 {
		kilobytes, _ := strconv.ParseFloat(words[0], 64)
		return kilobytes
	}
	return 0
}

func ancestors(parents map[int]int, pid int) (all []int) {
	for pid = parents[pid]; pid > 1; pid = parents[pid] {
		all = append(all, pid)
	}
	return all
}
