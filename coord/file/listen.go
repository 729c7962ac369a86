//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ear is somebody in this process who listens to a topic.
type ear struct {
	s     *Store
	topic string
	dir   string // the name of the topic's directory
	hear  func([]byte)

	mu      sync.Mutex
	at      pipe
	stopped bool

	missed  atomic.Bool // notes may have been missed, and it has not heard of that yet
	running sync.WaitGroup
	once    sync.Once
}

// pipe is that by which an ear is reached.
type pipe struct {
	place *place
	name  string
	f     *os.File // nil if there is none
}

// Listen makes a pipe of its own for the topic, which lasts until stop.
func (s *Store) Listen(ctx context.Context, topic string, hear func(note []byte)) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer p.leave()
	if err := p.check(); err != nil {
		return nil, err
	}
	e := &ear{s: s, topic: topic, dir: nameOf(topic), hear: hear}
	if e.at, err = p.newPipe(e.dir); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		e.at.close(e.dir)
		return nil, errClosed
	}
	s.ears[e] = struct{}{}
	e.running.Go(e.run)
	return e.stop, nil
}

// newPipe makes a pipe for a topic. The pipe gets its name last, so nobody sees it before it is open.
func (p *place) newPipe(topic string) (at pipe, err error) {
	name := fmt.Sprintf("%d-%s", os.Getpid(), unique())
	for {
		d, err := p.notes.makeSub(topic)
		if err == nil {
			var f *os.File
			if f, err = d.makePipe("." + name); err == nil {
				if err = d.rename("."+name, name); err == nil {
					p.users.Add(1)
					d.close()
					return pipe{p, name, f}, nil
				}
				f.Close()
			}
			d.remove("." + name)
			d.close()
		}
		if !errors.Is(err, unix.ENOENT) { // otherwise the directory was empty, and somebody has removed it
			return at, trouble("make a pipe", err)
		}
		if err := p.missingNotes(); err != nil {
			return at, err
		}
	}
}

// missingNotes returns an error if the directory of all topics has gone.
func (p *place) missingNotes() error {
	if _, err := p.root.stat(notesDir); err == unix.ENOENT {
		return p.hasGone(notesDir)
	}
	return p.check()
}

// close may be called on the zero pipe.
func (at pipe) close(topic string) {
	if at.f != nil {
		at.f.Close()
		if d, err := at.place.notes.visit(topic); err == nil {
			at.place.bury(d, topic, at.name)
			d.close()
		}
		at.place.leave()
	}
}

func (e *ear) stop() {
	e.once.Do(func() {
		e.s.mu.Lock()
		delete(e.s.ears, e)
		e.s.mu.Unlock()
		e.mu.Lock()
		e.stopped = true
		e.at.close(e.dir)
		e.at = pipe{}
		e.mu.Unlock()
	})
	e.running.Wait()
}

// miss has it hear that notes may have been missed.
func (e *ear) miss() {
	e.missed.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at.f != nil {
		_ = e.at.f.SetReadDeadline(time.Unix(1, 0))
	}
}

// move has it make a new pipe, in the place that the store has now.
func (e *ear) move() {
	e.missed.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at.close(e.dir)
	e.at = pipe{}
}

// tend finds out whether the pipe is still where it was, and whether notes were missed.
func (e *ear) tend(p *place) {
	e.mu.Lock()
	at := e.at
	e.mu.Unlock()
	if at.f == nil {
		return // it is about to make one
	}
	d, err := p.notes.visit(e.dir) // it may be another one by now
	if err == nil {
		_, err = d.stat(at.name)
	}
	switch {
	case at.place != p || errors.Is(err, unix.ENOENT):
		e.move()
	case err == nil && hasMissed(d, at.name):
		e.miss()
	}
	d.close()
}

// hasMissed reports whether notes have been missed since it was asked last.
func hasMissed(topic *dir, pipe string) bool { return topic.remove(missedFile(pipe)) }

func (at pipe) hasMissed(topic string) bool {
	d, err := at.place.notes.visit(topic)
	if err != nil {
		return false
	}
	defer d.close()
	return hasMissed(d, at.name)
}

// run reads notes until the ear is stopped.
func (e *ear) run() {
	buf := make([]byte, 1<<16+messageHead) // any message
	left := 0                              // the beginning of one
	for {
		e.mu.Lock()
		at, stopped := e.at, e.stopped
		if at.f != nil {
			at.place.users.Add(1) // its directories stay open while we read
		}
		e.mu.Unlock()
		if stopped {
			return
		}
		if at.f == nil {
			left = 0
			e.pipeAgain()
			continue
		}
		n, err := receive(at.f, buf[left:], func() bool { return at.hasMissed(e.dir) })
		switch {
		case err == errMissed:
			e.missed.Store(true)
		case errors.Is(err, os.ErrDeadlineExceeded):
			_ = at.f.SetReadDeadline(time.Time{})
		}
		left = copy(buf, messages(buf[:left+n], func(kind byte, rest []byte) { e.handle(at, kind, rest) }))
		at.place.leave()
		if e.missed.Swap(false) {
			e.hear(nil)
		}
	}
}

var errMissed = errors.New("notes were missed")

// receive reads from a pipe. Before it sleeps it finds out whether notes were missed.
func receive(pipe *os.File, buf []byte, hasMissed func() bool) (n int, err error) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	asked := false
	readErr := raw.Read(func(fd uintptr) bool {
		for {
			n, err = unix.Read(int(fd), buf)
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN && !asked && hasMissed():
				err = errMissed
				return true
			case err == unix.EAGAIN:
				asked = true
				return false
			default:
				return true
			}
		}
	})
	n = max(n, 0)
	if readErr != nil {
		return n, readErr
	}
	return n, err
}

// handle takes in a message.
func (e *ear) handle(at pipe, kind byte, rest []byte) {
	if kind == messageAside {
		var err error
		name := string(rest)
		if pipe, _, ok := isBeside(name); !ok || pipe != at.name { // whoever may write to the pipe may name anything
			e.missed.Store(true)
			return
		}
		if rest, err = at.aside(e.dir, name); err != nil {
			e.missed.Store(true)
			return
		}
	}
	if kind == messageLook {
		e.missed.Store(true)
		return
	}
	if text, ok := textFor(e.topic, rest); ok {
		if e.missed.Swap(false) {
			e.hear(nil)
		}
		e.hear(text)
	}
}

// aside returns what a file beside the pipe holds, and removes it.
func (at pipe) aside(topic, name string) ([]byte, error) {
	d, err := at.place.notes.visit(topic)
	if err != nil {
		return nil, err
	}
	defer d.close()
	b, _, err := d.read(name, 1<<16)
	if err == nil {
		d.remove(name)
	}
	return b, err
}

// pipeAgain makes a new pipe after somebody has taken the old one away.
func (e *ear) pipeAgain() {
	p, err := e.s.enter()
	if err == nil {
		var at pipe
		if at, err = p.newPipe(e.dir); err == nil {
			e.mu.Lock()
			if e.stopped {
				at.close(e.dir)
			} else {
				e.at = at
			}
			e.mu.Unlock()
		}
		p.leave()
	}
	if e.missed.Swap(false) {
		e.hear(nil)
	}
	if err != nil {
		time.Sleep(10 * time.Millisecond)
	}
}
