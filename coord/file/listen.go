//go:build linux || darwin

package file

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// listener is somebody in this process who hears of a topic.
type listener struct {
	s     *Store
	topic string
	dir   string // the name of the topic's directory
	hear  func([]byte)

	mu      sync.Mutex
	conn    *net.UnixConn
	place   *place // where the socket is
	socket  string
	stopped bool

	lost    atomic.Bool
	running sync.WaitGroup
	once    sync.Once
}

// Listen has a socket of its own for each topic, which lasts until stop.
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
	l := &listener{s: s, topic: topic, dir: nameOf(topic, shortName), hear: hear}
	if err := l.bind(p); err != nil {
		return nil, trouble("listen to "+topic, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.unbind()
		return nil, errClosed
	}
	s.listeners[l] = struct{}{}
	l.running.Go(l.run)
	return l.stop, nil
}

// bind makes the socket. Nobody sees it before it can be reached: it gets its name last.
func (l *listener) bind(p *place) error {
	var unique [6]byte
	rand.Read(unique[:])
	socket := fmt.Sprintf("%d-%x", os.Getpid(), unique)
	notes := int(p.notes.Fd())
	for {
		err := again(func() error { return unix.Mkdirat(notes, l.dir, 0o700) })
		if err == nil && p.mode != 0o600 {
			err = again(func() error { return unix.Fchmodat(notes, l.dir, 0o2770, 0) })
		}
		if err != nil && err != unix.EEXIST && err != unix.ENOENT {
			return err
		}
		conn, err := p.bind(notesDir + "/" + l.dir + "/." + socket)
		if err == nil {
			err = again(func() error {
				return unix.Renameat(notes, l.dir+"/."+socket, notes, l.dir+"/"+socket)
			})
			if err == nil {
				l.conn, l.place, l.socket = conn, p, socket
				p.users.Add(1)
				return nil
			}
		}
		if conn != nil {
			conn.Close()
			_ = unix.Unlinkat(notes, l.dir+"/."+socket, 0)
		}
		if !errors.Is(err, unix.ENOENT) { // otherwise the directory was empty, and somebody has removed it
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
	}
}

// unbind needs mu, or that nobody else knows the listener.
func (l *listener) unbind() {
	if l.conn == nil {
		return
	}
	l.conn.Close()
	l.place.bury(l.dir, l.socket)
	l.place.leave()
	l.conn = nil
}

func (l *listener) stop() {
	l.once.Do(func() {
		l.s.mu.Lock()
		delete(l.s.listeners, l)
		l.s.mu.Unlock()
		l.mu.Lock()
		l.stopped = true
		l.unbind()
		l.mu.Unlock()
	})
	l.running.Wait()
}

// look makes the listener hear that notes may have been lost.
func (l *listener) look() {
	l.lost.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// rebind has the listener make a new socket, in the place that the store has now.
func (l *listener) rebind() {
	l.lost.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unbind()
}

// tend finds out whether the socket is still where it was, and whether notes were lost.
func (l *listener) tend(p *place) {
	l.mu.Lock()
	dir, socket, at := l.dir, l.socket, l.place
	l.mu.Unlock()
	var st unix.Stat_t
	err := again(func() error {
		return unix.Fstatat(int(p.notes.Fd()), dir+"/"+socket, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	switch {
	case at != p || err == unix.ENOENT:
		l.rebind()
	case p.hasLost(dir, socket):
		l.look()
	}
}

// hasLost reports whether notes have been lost since it was asked last.
func (p *place) hasLost(topic, socket string) bool {
	return unix.Unlinkat(int(p.notes.Fd()), lostFile(topic, socket), 0) == nil
}

// run hears until the listener is stopped.
func (l *listener) run() {
	buf := make([]byte, 1<<14)
	for {
		l.mu.Lock()
		conn, p, socket, stopped := l.conn, l.place, l.socket, l.stopped
		l.mu.Unlock()
		if stopped {
			return
		}
		if conn == nil {
			l.again()
			continue
		}
		n, err := receive(conn, buf, func() bool { return p.hasLost(l.dir, socket) })
		switch {
		case err == errLost:
			l.lost.Store(true)
		case err == nil:
			l.take(buf[:n])
		case errors.Is(err, os.ErrDeadlineExceeded):
			_ = conn.SetReadDeadline(time.Time{})
		}
		if l.lost.Swap(false) {
			l.hear(nil)
		}
	}
}

var errLost = errors.New("notes were lost")

// receive waits for a datagram. Before it sleeps it finds out whether notes were lost.
func receive(conn *net.UnixConn, buf []byte, hasLost func() bool) (n int, err error) {
	raw, err := conn.SyscallConn()
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
				n, err = 0, errLost
				return true
			case err == unix.EAGAIN:
				asked = true
				return false
			default:
				return true
			}
		}
	})
	if readErr != nil {
		return 0, readErr
	}
	return n, err
}

// take hears a datagram.
func (l *listener) take(b []byte) {
	switch {
	case len(b) == 0: // there was none
	case len(b) == 1:
		l.lost.Store(true)
	case len(b) >= 2:
		size := 2 + int(binary.BigEndian.Uint16(b))
		if len(b) < size || string(b[2:size]) != l.topic {
			return // another topic's, whose name collides with ours
		}
		if l.lost.Swap(false) {
			l.hear(nil)
		}
		l.hear(append([]byte{}, b[size:]...))
	}
}

// again makes a new socket, when somebody has taken the old one away.
func (l *listener) again() {
	if p, err := l.s.enter(); err == nil {
		l.mu.Lock()
		if l.conn == nil && !l.stopped {
			err = l.bind(p)
		}
		l.mu.Unlock()
		p.leave()
		if err == nil {
			l.lost.Store(true)
			return
		}
	}
	if l.lost.Swap(false) {
		l.hear(nil)
	}
	time.Sleep(10 * time.Millisecond)
}
