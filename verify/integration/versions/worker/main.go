//go:build unix

// Command worker stands in the lines of one service again and again, and writes down what it finds, until its standard input ends.
// The test builds it twice: with today's packages, and with those of an older commit. So it uses only what both have.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/trace"
	"github.com/turnwise/turnwise/recipes/barrier"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/once"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

const (
	permits = 2
	members = 3 // of a round at the barrier
)

// worker is one process of some version.
type worker struct {
	client *coord.Client
	name   string // "old-1": the test tells versions by what stands before the hyphen
	dir    string // where all workers write
	log    *os.File

	mu   sync.Mutex
	held *coord.Hold // of the line "mixed/order"
}

func main() {
	url, dir, name := flag.String("url", "", "the service"), flag.String("dir", "", "where to write"), flag.String("name", "", "of this process")
	flag.Parse()
	w := &worker{name: *name, dir: *dir, log: open(filepath.Join(*dir, "log"))}
	var err error
	w.client, err = backend.Open(context.Background(), *url, backend.WithClient(coord.WithOwnerLabel(*name),
		coord.WithObserver(trace.To(open(filepath.Join(*dir, *name+".jsonl")), "mixed"))))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	ctx, drain := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, turn := range []func(context.Context) error{w.lock, w.readOrWrite, w.permit, w.lead, w.meet, w.job, w.observe} {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := turn(ctx); err != nil && ctx.Err() == nil {
					w.note("trouble", fmt.Sprintf("%q", err))
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Duration(5+rand.IntN(15)) * time.Millisecond)
			}
		})
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		command := in.Text()
		all.Go(func() { w.obey(ctx, command) })
	}
	drain()
	all.Wait()
	if err := w.client.Close(); err != nil {
		w.note("trouble", fmt.Sprintf("%q", err))
	}
}

func open(path string) *os.File {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		panic(err)
	}
	return f
}

// note adds a line to the log of all workers, in one write.
func (w *worker) note(what string, args ...any) {
	if _, err := w.log.WriteString(what + " " + w.name + " " + strings.TrimSpace(fmt.Sprintln(args...)) + "\n"); err != nil {
		panic(err)
	}
}

// inside does something under a hold: alone says how the kernel tells whether others are there who must not be.
func (w *worker) inside(h *coord.Hold, line, kind string, alone func() *os.File) error {
	var memo []byte
	var err error
	if line == "mutex" {
		if memo, err = h.Memo(h.Context()); err != nil {
			return errors.Join(err, h.Release())
		}
	}
	room := alone()
	if room == nil {
		w.note("two", line, kind, int64(h.Token()))
		return h.Release()
	}
	w.note("in", line, kind, int64(h.Token()), string(memo)+".")
	if line == "mutex" {
		err = h.SetMemo(h.Context(), fmt.Append(nil, int64(h.Token())))
	}
	time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond)
	how := "ok"
	if h.Err() != nil || err != nil {
		how = "lost"
	}
	w.note("out", line, kind, int64(h.Token()), how)
	room.Close()
	return h.Release()
}

// enter locks the first of some files that is free, as a kernel does it: nothing of turnwise is in it, and it ends with a process.
func (w *worker) enter(how int, names ...string) *os.File {
	for _, name := range names {
		f := open(filepath.Join(w.dir, name))
		if syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) == nil {
			return f
		}
		f.Close()
	}
	return nil
}

func (w *worker) lock(ctx context.Context) error {
	h, err := mutex.New(w.client, "mixed/mutex").Lock(ctx)
	if err != nil {
		return err
	}
	return w.inside(h, "mutex", "W", func() *os.File { return w.enter(syscall.LOCK_EX, "mutex") })
}

func (w *worker) readOrWrite(ctx context.Context) error {
	if rand.IntN(3) > 0 {
		h, err := rwlock.New(w.client, "mixed/rwlock").RLock(ctx)
		if err != nil {
			return err
		}
		return w.inside(h, "rwlock", "R", func() *os.File { return w.enter(syscall.LOCK_SH, "rwlock") })
	}
	h, err := rwlock.New(w.client, "mixed/rwlock").Lock(ctx)
	if err != nil {
		return err
	}
	return w.inside(h, "rwlock", "W", func() *os.File { return w.enter(syscall.LOCK_EX, "rwlock") })
}

func (w *worker) permit(ctx context.Context) error {
	h, err := semaphore.New(w.client, "mixed/semaphore", permits).Acquire(ctx, 1)
	if err != nil {
		return err
	}
	return w.inside(h, "semaphore", "P", func() *os.File { return w.enter(syscall.LOCK_EX, "permit-1", "permit-2") })
}

func (w *worker) lead(ctx context.Context) error {
	t, err := election.New(w.client, "mixed/election").Campaign(ctx, []byte(w.name))
	if err != nil {
		return err
	}
	return w.inside(t.Hold, "election", "W", func() *os.File { return w.enter(syscall.LOCK_EX, "election") })
}

// observe writes down whom it sees leading.
func (w *worker) observe(ctx context.Context) error {
	for n, err := range election.New(w.client, "mixed/election").Observe(ctx) {
		switch {
		case errors.Is(err, election.ErrNoLeader):
		case err != nil:
			return err
		case len(n.Data) > 0:
			w.note("sees", string(n.Data), n.Owner.Label)
		}
	}
	return nil
}

func (w *worker) meet(ctx context.Context) error {
	round, err := barrier.New(w.client, "mixed/barrier", members).Wait(ctx)
	if err == nil {
		w.note("round", round)
	}
	return err
}

// job is one of those that are run once in each quarter of a second.
func (w *worker) job(ctx context.Context) error {
	slot := time.Now().UnixMilli() / 250
	_, err := once.New(w.client, "mixed/once", once.AtMostOnce).Do(ctx, slot, func(context.Context, *coord.Hold) error {
		w.note("slot", slot)
		return nil
	})
	time.Sleep(50 * time.Millisecond)
	if errors.Is(err, once.ErrAhead) { // it waited for so long that its slot has passed
		return nil
	}
	return err
}

// obey does what the test says: hold a line until it is asked to let go, let go, or stand in it with a number, once.
func (w *worker) obey(ctx context.Context, command string) {
	line := mutex.New(w.client, "mixed/order", mutex.Asking("from "+w.name))
	what, number, _ := strings.Cut(command, " ")
	if what == "release" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.held.Release()
		return
	}
	h, err := line.Lock(ctx)
	if err != nil {
		w.note("trouble", fmt.Sprintf("%q", err))
		return
	}
	if what == "stand" {
		w.note("order", number, int64(h.Token()))
		h.Release()
		return
	}
	w.mu.Lock()
	w.held = h
	w.mu.Unlock()
	w.note("holds")
	if n, err := h.Wanted(ctx); err == nil {
		w.note("wanted", n.Asks)
	}
}
