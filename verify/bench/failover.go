package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

const failoverTimeout = 2 * time.Second

// failover measures how soon the next process leads. Locks stand in for elections: here they are the same.
func failover(b *bench, w *Work) ([]Result, error) {
	var kills, resigns []Result
	var players []*Contestant
	for _, p := range roster() {
		if b.plays(p) && p.Together == 0 && p.Open != nil && !p.Bare && p.does(Lock) && slices.Contains(clusters, p.Service) {
			players = append(players, p)
			r := Result{Work: w.Name, Case: "kill -9", Contestant: p.Name, Service: p.Service, Ours: p.Ours}
			kills = append(kills, r)
			r.Case = "resign"
			resigns = append(resigns, r)
		}
	}
	for range b.rounds {
		for i, p := range players {
			for _, r := range []*Result{&kills[i], &resigns[i]} {
				if r.Error != "" || b.ctx.Err() != nil {
					continue
				}
				took, err := b.succeed(p, r.Case == "kill -9")
				if err != nil {
					r.Error = err.Error()
					continue
				}
				r.Rounds = append(r.Rounds, Sample{Per: took, Turns: 1})
				fmt.Fprintf(b.log, "%s, %s: %s/%s %v\n", w.Name, r.Case, p.Service, p.Name, took)
			}
		}
	}
	return append(kills, resigns...), b.ctx.Err()
}

// succeed ends a leader and waits for the next.
func (b *bench) succeed(p *Contestant, kill bool) (time.Duration, error) {
	s, err := b.stage(false).service(b.ctx, p.Service)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	line := freshLine()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), leadVariable+"="+p.call(), "BENCH_ADDR="+s.addr, "BENCH_LINE="+line)
	orders, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	cmd.Stderr = os.Stderr
	child, err := servers.StartProcess(cmd)
	if err != nil {
		return 0, err
	}
	defer child.Kill()
	if word, err := bufio.NewReader(said).ReadString('\n'); err != nil || word != "leads\n" {
		return 0, fmt.Errorf("the first leader said %q: %v", word, err)
	}
	next, err := p.Open(ctx, Setting{Addr: s.addr, Timeout: failoverTimeout, Woken: new(atomic.Int64)})
	if err != nil {
		return 0, err
	}
	defer next.Close()
	led := make(chan error, 1)
	var at time.Time
	var release func() error
	go func() {
		var err error
		release, err = next.Acquire(ctx, Want{Kind: Lock, Line: line})
		at = time.Now()
		led <- err
	}()
	time.Sleep(300 * time.Millisecond)
	since := time.Now()
	if kill {
		child.Kill()
	} else if _, err := orders.Write([]byte("resign\n")); err != nil {
		return 0, err
	}
	if err := <-led; err != nil {
		return 0, err
	}
	return at.Sub(since), release()
}

// leadVariable makes the program a leader that somebody else ends.
const leadVariable = "TURNWISE_BENCH_LEAD"

func lead(ctx context.Context, who string) error {
	p, err := called(who)
	if err != nil {
		return err
	}
	c, err := p.Open(ctx, Setting{Addr: os.Getenv("BENCH_ADDR"), Timeout: failoverTimeout, Woken: new(atomic.Int64)})
	if err != nil {
		return err
	}
	release, err := c.Acquire(ctx, Want{Kind: Lock, Line: os.Getenv("BENCH_LINE")})
	if err != nil {
		return err
	}
	fmt.Println("leads")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if err := release(); err != nil {
		return err
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed: closing the session is not measured
	return nil
}
