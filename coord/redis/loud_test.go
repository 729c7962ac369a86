package redis

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/verify/servers"
)

// lines counts what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

func (l *lines) with(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// A server hangs up on all who listen to a channel on which more is published than they can take in. Who may publish can have it
// do so all the time.
func TestWhoHasTheServerHangUpDoesNotFillTheLog(t *testing.T) {
	address := servers.Redis(t).Member(0).Addr()
	log := &lines{}
	s := open1(t, address, WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	lost := make(chan struct{}, 1000)
	stop, err := s.Listen(redistest.Within(t, 10*time.Second), "topic", func(note []byte) {
		if note == nil {
			lost <- struct{}{}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	publish := redistest.Loud(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	large := bytes.Repeat([]byte{7}, 40<<20)
	for began := time.Now(); ctx.Err() == nil || len(lost) == 0 && time.Since(began) < time.Minute; {
		_ = publish("topic", large)
	}
	if len(lost) == 0 {
		t.Error("the server has not hung up")
	}
	if n := log.with("connection that hears"); n != 1 {
		t.Errorf("%d lines are logged of that", n)
	}
}
