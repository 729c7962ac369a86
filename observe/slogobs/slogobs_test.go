package slogobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/slogobs"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/bubble"
)

// paper is what is written on.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// writing returns an option that logs, and what has been logged since it was called last. It waits for what is being logged.
func writing(level slog.Level, opts ...slogobs.Option) (coord.Option, func() string) {
	var text paper
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level}))
	return coord.WithObserver(slogobs.New(log, opts...)), func() string {
		synctest.Wait()
		text.mu.Lock()
		defer text.mu.Unlock()
		defer text.text.Reset()
		return text.text.String()
	}
}

func TestWhatWorksIsNotWorthALine(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, said := writing(slog.LevelInfo, slogobs.LongHold(time.Minute), slogobs.LongWait(time.Minute))
		c := s.Client(opt)
		for range 3 {
			h, err := mutex.New(c, "a").Lock(t.Context())
			require.NoError(t, err)
			next := mutex.New(c, "a").LockChan(t.Context())
			time.Sleep(30 * time.Second)
			require.NoError(t, h.Release())
			require.NoError(t, (<-next).Hold.Release())
		}
		require.NoError(t, c.Close())
		assert.Empty(t, said())
	})
}

func TestEachTurnIsALineForWhoDebugs(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, said := writing(slog.LevelDebug)
		c := s.Client(opt)
		m := mutex.New(c, "a")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = m.Lock(ctx)
		require.Error(t, err)
		require.NoError(t, h.Release())
		require.NoError(t, c.Close())
		at := 0
		all := said()
		for _, want := range []string{"a session is open", "granted", "waiting", "gave up", "released", "the session was closed"} {
			i := strings.Index(all[at:], "turnwise: "+want)
			require.GreaterOrEqual(t, i, 0, "%s is missing or too early in:\n%s", want, all)
			at += i
		}
		assert.Contains(t, all, "line=a kind=lock token=")
		assert.Contains(t, all, "waited=1s")
	})
}

func TestALossIsAnError(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, said := writing(slog.LevelWarn)
		c := s.Client(opt)
		h, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(90 * time.Second)
		s.Expire(c)
		<-h.Context().Done()
		all := said()
		assert.Regexp(t, `msg="turnwise: a hold was lost".* held=1m[23]\d`, all, "it lasted until the session was seen alive last")
		assert.Contains(t, all, `level=ERROR msg="turnwise: a hold was lost" line=a`)
		assert.Contains(t, all, `level=WARN msg="turnwise: the session has ended"`)
	})
}

func TestALongHoldAndALongWaitAreToldOnceAndAtTheTime(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, said := writing(slog.LevelWarn, slogobs.LongHold(time.Minute), slogobs.LongWait(2*time.Minute))
		c := s.Client(opt)
		h, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		next := mutex.New(c, "a").LockChan(t.Context())
		time.Sleep(59 * time.Second)
		assert.Empty(t, said())
		time.Sleep(2 * time.Second)
		assert.Contains(t, said(), `msg="turnwise: a hold is long" line=a`)
		time.Sleep(time.Minute)
		assert.Contains(t, said(), `msg="turnwise: a wait is long" line=a`)
		time.Sleep(time.Hour)
		assert.Empty(t, said())
		require.NoError(t, h.Release())
		require.NoError(t, (<-next).Hold.Release())
		time.Sleep(time.Hour)
		assert.Empty(t, said(), "what is over is long no more")
	})
}

// Who holds very much, or whose ends are never told, takes no more and more memory: what it lost is told without its duration.
func TestHoldsThatAreNotRememberedAreLostAllTheSame(t *testing.T) {
	var text bytes.Buffer
	o := slogobs.New(slog.New(slog.NewTextHandler(&text, nil)))
	now := time.Now()
	hold := func(n int) coord.Node { return coord.Node{Line: fmt.Sprint(n), Token: coord.Token(n)} }
	for n := range 100_001 {
		o.Granted(now, hold(n), 0)
	}
	o.Lost(now.Add(time.Second), hold(0), errors.New("gone"))
	assert.Contains(t, text.String(), " held=1s")
	text.Reset()
	o.Lost(now.Add(time.Second), hold(100_000), errors.New("gone"))
	assert.Contains(t, text.String(), "a hold was lost")
	assert.NotContains(t, text.String(), "held=")

	for n := range 100_000 { // each end makes room
		o.Released(now, hold(n), 0)
	}
	text.Reset()
	o.Granted(now, hold(1), 0)
	o.Lost(now.Add(time.Minute), hold(1), errors.New("gone"))
	assert.Contains(t, text.String(), " held=1m0s")
}

// A line that is lost again and again fills no disk, and names that somebody else has chosen write no lines of their own.
func TestAFloodIsDammed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		o := slogobs.New(slog.New(slog.NewTextHandler(&text, nil)))
		for range 1000 {
			o.Lost(time.Now(), coord.Node{Line: "a\nlevel=INFO"}, errors.New("gone\x1b[2J"))
		}
		o.Lost(time.Now(), coord.Node{Line: "another"}, errors.New("gone"))
		assert.Equal(t, 11, strings.Count(text.String(), "\n"))
		assert.NotContains(t, text.String(), "\x1b")
		time.Sleep(time.Minute)
		text.Reset()
		o.Lost(time.Now(), coord.Node{Line: "a\nlevel=INFO"}, errors.New("gone"))
		assert.Contains(t, text.String(), "left_out=990")
	})
}

func ExampleNew() {
	client := mem.New().Client(coord.WithObserver(slogobs.New(slog.Default(), slogobs.LongWait(time.Minute))))
	defer client.Close()
}

// Callers who share a place wait as one, and each has a turn of his own.
func TestTheWaitOfASharedPlaceEndsWithItsFirstTurn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, said := writing(slog.LevelInfo, slogobs.LongHold(3*time.Minute), slogobs.LongWait(time.Minute))
		m := mutex.New(s.Client(opt), "a", mutex.Together(10*time.Millisecond))
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		first := m.LockChan(ctx)
		synctest.Wait()
		second := m.LockChan(ctx)
		time.Sleep(30 * time.Second)
		require.NoError(t, busy.Release())
		h := (<-first).Hold
		time.Sleep(2 * time.Minute)
		require.NoError(t, h.Release())
		h = (<-second).Hold
		time.Sleep(2 * time.Minute)
		assert.Empty(t, said())
		time.Sleep(2 * time.Minute)
		assert.Contains(t, said(), "a hold is long")
		require.NoError(t, h.Release())
		time.Sleep(5 * time.Minute)
		assert.Empty(t, said())
	})
}

// On two services a line may have the same name, and a hold the same token.
func TestHoldsOfTwoServicesAreNotMistakenForEachOther(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, said := writing(slog.LevelWarn, slogobs.LongHold(time.Hour))
		other := mem.New()
		defer other.Close()
		c := s.Client(opt)
		first, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(50 * time.Minute)
		second, err := mutex.New(other.Client(opt), "a").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, first.Token(), second.Token(), "otherwise this shows nothing")
		require.NoError(t, second.Release())
		assert.Empty(t, said())
		time.Sleep(20 * time.Minute)
		assert.Contains(t, said(), "a hold is long")
		s.Expire(c)
		<-first.Context().Done()
		assert.Regexp(t, `a hold was lost.* held=1h[0-9]+m`, said())
		_ = first.Release()
		time.Sleep(2 * time.Hour)
		assert.Empty(t, said())
	})
}
