//go:build unix

package nats

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// A server that is told to end soon takes JetStream down while its clients are still connected. Nothing is forgotten by that.
func TestALameDuckEndsNoHold(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Fsync(), servers.Config(`lame_duck_duration: "30s"`, `lame_duck_grace_period: "10s"`)).Member(0)
	c := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
		return Connect(ctx, m.URL(), WithMonitor(monitor(m)), WithTTL(12*time.Second), WithLongestTTL(12*time.Second), WithLogger(storecheck.Logger(t)))
	})
	h := storecheck.Locked(t, c, "orders")
	if err := syscall.Kill(m.Pid(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // it is renewed each third of its TTL
	if err := h.Err(); err != nil {
		t.Errorf("the hold has ended: %v", err)
	}
	m.Restart(t)
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}
