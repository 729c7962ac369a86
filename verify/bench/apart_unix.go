//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/turnwise/turnwise/verify/servers"
)

// Contenders in processes of their own. The kernel gives what is waited for to the first that asks. Among goroutines of one
// process that is nearly always another one; among processes it is nearly always the one that has just let go.

// page is memory that all of them share. The one that has the turn writes there.
type page struct {
	last    atomic.Int64 // the seat that had the turn before, counted from 1
	passed  atomic.Int64
	longest atomic.Int64 // wait, in ns
	turns   [maxApart]atomic.Int64
}

const maxApart = 64

func openPage(path string) (*page, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(page{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	shared, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*page)(unsafe.Pointer(&shared[0])), nil // as long as the process lasts
}

func (p *page) had(seat int, asked time.Time) {
	p.turns[seat].Add(1)
	p.longest.Store(max(p.longest.Load(), int64(time.Since(asked))))
	if me := int64(seat) + 1; p.last.Swap(me) != me {
		p.passed.Add(1)
	}
}

// counts returns how many turns each seat has had, and how many of all went to another seat than the turn before.
func (p *page) counts(seats int) (turns []int64, passed int64) {
	for i := range seats {
		turns = append(turns, p.turns[i].Load())
	}
	return turns, p.passed.Load()
}

// sitting is what one of them is told.
type sitting struct {
	Who, Addr, Line, Page string
	Seat                  int
	Timeout               time.Duration // of its session
}

// apartVariable makes the program one of them.
const apartVariable = "TURNWISE_BENCH_APART"

func runApart(ctx context.Context, c *Contestant, addr string, s Scenario) (Sample, error) {
	self, err := os.Executable()
	if err != nil {
		return Sample{}, err
	}
	shared, err := os.CreateTemp("", "bench-page-")
	if err != nil {
		return Sample{}, err
	}
	shared.Close()
	defer os.Remove(shared.Name())
	p, err := openPage(shared.Name())
	if err != nil {
		return Sample{}, err
	}
	if s.Clients > maxApart {
		return Sample{}, fmt.Errorf("%d processes are too many", s.Clients)
	}
	for seat := range s.Clients {
		told, err := json.Marshal(sitting{c.call(), addr, s.Line, shared.Name(), seat, sessions})
		if err != nil {
			return Sample{}, err
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), apartVariable+"="+string(told))
		cmd.Stderr = os.Stderr
		if _, err := cmd.StdinPipe(); err != nil { // it ends when we do
			return Sample{}, err
		}
		said, err := cmd.StdoutPipe()
		if err != nil {
			return Sample{}, err
		}
		child, err := servers.StartProcess(cmd)
		if err != nil {
			return Sample{}, err
		}
		defer child.Kill()
		if word, err := bufio.NewReader(said).ReadString('\n'); err != nil || word != "sits\n" {
			return Sample{}, fmt.Errorf("process %d of %s said %q: %v", seat, c.Name, word, err)
		}
	}
	time.Sleep(3 * s.Warm)
	p.longest.Store(0)
	before, passed := p.counts(s.Clients)
	since := time.Now()
	var turns []int64
	var then, total int64
	for total == 0 { // on a busy machine the first turn may take long
		if time.Since(since) > time.Minute {
			return Sample{}, errors.New("nobody had a turn")
		}
		time.Sleep(s.Window)
		turns, then = p.counts(s.Clients)
		for i := range turns {
			turns[i] -= before[i]
			total += turns[i]
		}
	}
	elapsed := time.Since(since)
	sample := sampled(total, elapsed, 0, 0)
	(&shares{turns: turns, passed: then - passed, longest: time.Duration(p.longest.Load())}).sum(&sample)
	return sample, nil
}

// sit takes turns until the process that measures has gone.
func sit(ctx context.Context, told string) error {
	var s sitting
	if err := json.Unmarshal([]byte(told), &s); err != nil {
		return err
	}
	p, err := openPage(s.Page)
	if err != nil {
		return err
	}
	who, err := called(s.Who)
	if err != nil {
		return err
	}
	c, err := who.Open(ctx, Setting{Addr: s.Addr, Timeout: s.Timeout, Woken: new(atomic.Int64)})
	if err != nil {
		return err
	}
	fmt.Println("sits")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		asked := time.Now()
		if err := take1(ctx, c, Want{Kind: Lock, Line: s.Line}, func() { p.had(s.Seat, asked) }); err != nil {
			return err
		}
	}
}
