package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// A job is what a worker process is told, through its environment.
type job struct {
	Worker   int
	Slot     int // of the worker, and of those that took its place before
	Workers  int // how many there are at a time
	Service  string
	URL      string // of a store
	Peers    bool   // the stock libraries instead of ours
	Servers  []string
	Register string
	Journal  string
	Trace    string
	Session  time.Duration
	Seed     uint64
}

const jobVariable = "TURNWISE_CHAOS_JOB"

// work is a worker's main. It goes on until its standard input says drain (or ends), then finishes what it has begun.
func work(text string) {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		panic(err)
	}
	var files [2]*os.File
	for i, path := range []string{j.Journal, j.Trace} {
		var err error
		if files[i], err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
			panic(err)
		}
	}
	w := &worker{job: j, journal: &journal{file: files[0], worker: j.Worker}, trace: files[1], draining: make(chan struct{})}
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		close(w.draining)
	}()
	if j.Peers {
		w.runPeers()
	} else {
		w.runOurs()
	}
	fmt.Println("drained")
}

type worker struct {
	job      job
	journal  *journal
	trace    *os.File // of what a user's Observer would see
	draining chan struct{}
	wants    atomic.Int64
	register sync.Mutex // one exchange at a time
	conn     net.Conn
	answers  *bufio.Reader
}

// A claim is a hold of ours or a peer's, as far as the harness needs to know it.
type claim struct {
	node  string
	token int64
	// beside are what is held together with it, of other lines; valid and release are for all.
	beside []part
	// unwanted is closed when the holder should give way; nil if it never should.
	unwanted <-chan struct{}
	// valid asks the library whether the hold is still good.
	valid   func() bool
	release func() error
	// downgrade turns a writer into a reader; nil if that is not asked for.
	downgrade func() error
}

// A part is what a claim has of another line.
type part struct {
	line, kind string
	node       string
	token      int64
}

// An errand is a line that a worker's goroutine wants again and again.
type errand struct {
	line    string
	kind    func(*rand.Rand) string
	fenced  bool
	acquire func(ctx context.Context, kind string) (*claim, error)
	always  bool // never give up waiting
	quiet   bool // asks for nothing for long, and keeps for long what it gets
	brief   bool // rests after each try, and never keeps for long what it gets
}

// pursue follows the errand until the worker drains.
func (w *worker) pursue(errand errand, random *rand.Rand) {
	for {
		rest := time.Duration(5+random.IntN(40)) * time.Millisecond
		switch {
		case errand.quiet:
			rest = time.Duration(random.Int64N(3 * int64(w.job.Session)))
		case errand.brief:
			rest = w.job.Session/8 + time.Duration(random.Int64N(int64(w.job.Session)/8))
		}
		if !w.rests(rest) {
			return
		}
		w.once(errand, random)
	}
}

// rests waits, and reports whether the worker goes on.
func (w *worker) rests(d time.Duration) bool {
	select {
	case <-w.draining:
		return false
	case <-time.After(d):
		return true
	}
}

// once gets the errand's line and gives it back.
func (w *worker) once(errand errand, random *rand.Rand) {
	kind := errand.kind(random)
	note := w.noting(errand.line, kind)
	ctx, cancel := context.Background(), func() {}
	if !errand.always && random.IntN(5) == 0 { // some lose patience
		ctx, cancel = context.WithTimeout(ctx, time.Duration(10+random.IntN(500))*time.Millisecond)
	}
	defer cancel()
	note(Event{What: want})
	c, err := errand.acquire(ctx, kind)
	switch {
	case errors.Is(err, coord.ErrBusy):
		note(Event{What: busy})
		return
	case err != nil:
		note(Event{What: failed, Err: err.Error()})
		return
	}
	note(Event{What: granted, Node: c.node, Token: c.token})
	note = w.notingAll(note, c.beside)
	if errand.fenced && kind != "R" {
		w.write(errand.line, c.token)
	}
	hold := w.hold(errand, random)
	ok := w.believe(c, hold, note)
	if ok && c.downgrade != nil && kind == "W" && random.IntN(3) == 0 {
		if c.downgrade() == nil {
			note(Event{What: downgraded})
			ok = w.believe(c, hold, note)
		}
	}
	if ok && errand.fenced && kind != "R" && c.downgrade == nil {
		w.write(errand.line, c.token)
	}
	if !ok {
		note(Event{What: lost})
	}
	note(Event{What: releasing})
	note(ending(c.release()))
}

// ending is the event that a release has returned.
func ending(err error) Event {
	e := Event{What: released}
	if err != nil {
		e.Err = err.Error()
	}
	return e
}

// noting returns what notes the events of one want.
func (w *worker) noting(line, kind string) func(Event) {
	n := w.wants.Add(1)
	return func(e Event) {
		e.Want, e.Line, e.Kind = n, line, kind
		w.journal.note(e)
	}
}

// notingAll notes that parts are held, and returns what notes all that happens to them and to what they are held with.
func (w *worker) notingAll(note func(Event), parts []part) func(Event) {
	all := []func(Event){note}
	for _, p := range parts {
		one := w.noting(p.line, p.kind)
		one(Event{What: want})
		one(Event{What: granted, Node: p.node, Token: p.token})
		all = append(all, one)
	}
	return func(e Event) {
		for _, one := range all {
			one(e)
		}
	}
}

// hold is how long the errand keeps what it gets.
func (w *worker) hold(errand errand, random *rand.Rand) time.Duration {
	n := random.IntN(20)
	switch {
	case errand.quiet:
		return w.job.Session
	case n == 0 && !errand.brief:
		return w.job.Session + time.Duration(random.Int64N(int64(w.job.Session)))
	case n <= 2 && !errand.brief:
		return time.Duration(50+random.IntN(150)) * time.Millisecond
	}
	return time.Duration(random.IntN(15)) * time.Millisecond
}

// believe asks once a millisecond whether the hold is still good, and records when it was. It reads the clock before it
// asks: a pause between the two then makes the recorded time earlier than the belief, never later.
func (w *worker) believe(c *claim, hold time.Duration, note func(Event)) bool {
	end := mono() + hold
	var last, noted time.Duration
	defer func() {
		if last > noted {
			note(Event{What: believed, At: last})
		}
	}()
	for {
		now := mono()
		if !c.valid() {
			return false
		}
		last = now
		if last-noted > 20*time.Millisecond {
			note(Event{What: believed, At: last})
			noted = last
		}
		if now >= end {
			return true
		}
		select {
		case <-c.unwanted:
			return true
		case <-time.After(time.Millisecond):
		}
	}
}

// write sends the token to the register, which is always reachable: the link to it is not what is tested.
func (w *worker) write(line string, token int64) {
	w.register.Lock()
	defer w.register.Unlock()
	if w.conn == nil {
		conn, err := net.Dial("tcp", w.job.Register)
		if err != nil {
			return // the run is over
		}
		w.conn, w.answers = conn, bufio.NewReader(conn)
	}
	if _, err := fmt.Fprintln(w.conn, line, token, w.job.Worker); err == nil {
		_, _ = w.answers.ReadString('\n')
	}
}
