package nats

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestNobodyEntersWhenABackupIsPutBack(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Fsync()).Member(0)
	storecheck.OldDisk(t, m, func(ctx context.Context, url string, ttl time.Duration) (*coord.Client, error) {
		return Connect(ctx, url, WithTTL(ttl), WithLongestTTL(ttl), WithMonitor(monitor(m)))
	})
}

func TestWhoeverAsksFirstHearsThatTheServerWasStartedAnew(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Fsync()).Member(0)
	storecheck.AfterRestart(t, m, func(ctx context.Context, url string) (register.Store, error) {
		return Open(ctx, url, WithMonitor(monitor(m)))
	})
}

// The same, when somebody opens a session first, and so asks for the memory.
func TestWhoeverAsksAfterMemoryHearsThatTheServerWasStartedAnew(t *testing.T) {
	m := servers.NATS(t, servers.Fsync()).Member(0)
	var s register.Store = storecheck.Opened(t, func(ctx context.Context) (*Store, error) { return Open(ctx, m.URL(), WithMonitor(monitor(m))) })
	ctx := within(t, time.Minute)
	if _, err := s.Memory(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	if _, err := s.Read(ctx, "line/orders"); err != nil {
		t.Fatal(err)
	}
	m.Restart(t)
	for {
		_, err := s.Memory(ctx)
		if err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_, err := s.Read(ctx, "line/orders")
	if !errors.Is(err, register.ErrRestarted) {
		t.Errorf("nobody is told: %v", err)
	}
}
