//go:build linux || darwin

package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// listener is somebody in this process who listens to a topic.
type listener struct {
	s     *Store
	topic string
	dir   string // the name of the topic's directory
	hear  func([]byte)

	mu      sync.Mutex
	at      ear
	stopped bool

	lost    atomic.Bool // notes may have been lost, and it has not heard of that yet
	running sync.WaitGroup
	once    sync.Once
}

// ear is the pipe by which a listener is reached.
type ear struct {
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
	l := &listener{s: s, topic: topic, dir: nameOf(topic), hear: hear}
	if l.at, err = p.pipe(l.dir); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.at.close(l.dir)
		return nil, errClosed
	}
	s.listeners[l] = struct{}{}
	l.running.Go(l.run)
	return l.stop, nil
}

// pipe makes a pipe for a topic. The pipe gets its name last, so nobody sees it before it is open.
func (p *place) pipe(topic string) (at ear, err error) {
	var unique [6]byte
	rand.Read(unique[:])
	name := fmt.Sprintf("%d-%x", os.Getpid(), unique)
	for {
		d, err := p.notes.makeSub(topic)
		if err == nil {
			var f *os.File
			if f, err = d.makePipe("." + name); err == nil {
				if err = d.rename("."+name, name); err == nil {
					p.users.Add(1)
					d.close()
					return ear{p, name, f}, nil
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
		return p.missing(notesDir)
	}
	return p.check()
}

// close may be called on the zero ear.
func (at ear) close(topic string) {
	if at.f != nil {
		at.f.Close()
		if d, err := at.place.notes.visit(topic); err == nil {
			at.place.bury(d, topic, at.name)
			d.close()
		}
		at.place.leave()
	}
}

func (l *listener) stop() {
	l.once.Do(func() {
		l.s.mu.Lock()
		delete(l.s.listeners, l)
		l.s.mu.Unlock()
		l.mu.Lock()
		l.stopped = true
		l.at.close(l.dir)
		l.at = ear{}
		l.mu.Unlock()
	})
	l.running.Wait()
}

// look makes the listener hear that notes may have been lost.
func (l *listener) look() {
	l.lost.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.f != nil {
		_ = l.at.f.SetReadDeadline(time.Unix(1, 0))
	}
}

// move has the listener make a new pipe, in the place that the store has now.
func (l *listener) move() {
	l.lost.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at.close(l.dir)
	l.at = ear{}
}

// tend finds out whether the pipe is still where it was, and whether notes were lost.
func (l *listener) tend(p *place) {
	l.mu.Lock()
	at := l.at
	l.mu.Unlock()
	if at.f == nil {
		return // it is about to make one
	}
	d, err := p.notes.visit(l.dir) // it may be another one by now
	if err == nil {
		_, err = d.stat(at.name)
	}
	switch {
	case at.place != p || errors.Is(err, unix.ENOENT):
		l.move()
	case err == nil && hasLost(d, at.name):
		l.look()
	}
	d.close()
}

// hasLost reports whether notes have been lost since it was asked last.
func hasLost(topic *dir, pipe string) bool { return topic.remove(lostFile(pipe)) }

func (at ear) hasLost(topic string) bool {
	d, err := at.place.notes.visit(topic)
	if err != nil {
		return false
	}
	defer d.close()
	return hasLost(d, at.name)
}

// run reads notes until the listener is stopped.
func (l *listener) run() {
	buf := make([]byte, 1<<16+messageHead) // any message
	left := 0                              // the beginning of one
	for {
		l.mu.Lock()
		at, stopped := l.at, l.stopped
		if at.f != nil {
			at.place.users.Add(1) // its directories stay open while we read
		}
		l.mu.Unlock()
		if stopped {
			return
		}
		if at.f == nil {
			left = 0
			l.pipeAgain()
			continue
		}
		n, err := receive(at.f, buf[left:], func() bool { return at.hasLost(l.dir) })
		switch {
		case err == errLost:
			l.lost.Store(true)
		case errors.Is(err, os.ErrDeadlineExceeded):
			_ = at.f.SetReadDeadline(time.Time{})
		}
		left = copy(buf, messages(buf[:left+n], func(kind byte, rest []byte) { l.take(at, kind, rest) }))
		at.place.leave()
		if l.lost.Swap(false) {
			l.hear(nil)
		}
	}
}

var errLost = errors.New("notes were lost")

// receive reads from a pipe. Before it sleeps it finds out whether notes were lost.
func receive(pipe *os.File, buf []byte, hasLost func() bool) (n int, err error) {
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
			case err == unix.EAGAIN && !asked && hasLost():
				err = errLost
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

// take handles a message.
func (l *listener) take(at ear, kind byte, rest []byte) {
	if kind == messageAside {
		var err error
		name := string(rest)
		if pipe, _, ok := isBeside(name); !ok || pipe != at.name { // whoever may write to the pipe may name anything
			l.lost.Store(true)
			return
		}
		if rest, err = at.aside(l.dir, name); err != nil {
			l.lost.Store(true)
			return
		}
	}
	if kind == messageLook {
		l.lost.Store(true)
		return
	}
	if text, ok := textFor(l.topic, rest); ok {
		if l.lost.Swap(false) {
			l.hear(nil)
		}
		l.hear(text)
	}
}

// aside returns what a file beside the pipe holds, and removes it.
func (at ear) aside(topic, name string) ([]byte, error) {
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
func (l *listener) pipeAgain() {
	p, err := l.s.enter()
	if err == nil {
		var at ear
		if at, err = p.pipe(l.dir); err == nil {
			l.mu.Lock()
			if l.stopped {
				at.close(l.dir)
			} else {
				l.at = at
			}
			l.mu.Unlock()
		}
		p.leave()
	}
	if l.lost.Swap(false) {
		l.hear(nil)
	}
	if err != nil {
		time.Sleep(10 * time.Millisecond)
	}
}
