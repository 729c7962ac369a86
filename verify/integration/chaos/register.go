package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// A register is what the holders write to. It lives outside all workers, has a fence for each line, and remembers every
// write, so that the judge can see which it took.
type register struct {
	listener net.Listener

	mu     sync.Mutex
	fence  fence.Local
	writes []write
}

// A write is what a worker asked of the register, and what became of it.
type write struct {
	at       time.Duration
	line     string
	token    int64
	worker   int
	accepted bool
}

func newRegister() (*register, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &register{listener: l}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r, nil
}

func (r *register) serve(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var w write
		if _, err := fmt.Sscan(lines.Text(), &w.line, &w.token, &w.worker); err != nil {
			return
		}
		answer := "refused"
		if r.take(&w) {
			answer = "accepted"
		}
		if _, err := fmt.Fprintln(conn, answer); err != nil {
			return
		}
	}
}

func (r *register) take(w *write) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.at = mono()
	w.accepted = w.token == 0 || r.fence.Pass(context.Background(), w.line, fence.Stamp{Token: coord.Token(w.token)}) == nil
	r.writes = append(r.writes, *w)
	return w.accepted
}

// firstAfter returns when the first write after t came in a line with that prefix; 0 if none has yet.
func (r *register) firstAfter(line string, t time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.writes) - 1; i >= 0; i-- {
		if r.writes[i].at <= t {
			break
		}
		if r.writes[i].line == line {
			first := r.writes[i].at
			for ; i >= 0 && r.writes[i].at > t; i-- {
				if r.writes[i].line == line {
					first = r.writes[i].at
				}
			}
			return first
		}
	}
	return 0
}

func (r *register) all() []write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]write(nil), r.writes...)
}
