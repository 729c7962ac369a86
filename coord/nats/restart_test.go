package nats

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// The label, both ways: a server that waits for its disk takes nobody's hold away, and one that may have forgotten lets nobody in
// beside whoever held before.
func TestARestart(t *testing.T) {
	for name, always := range map[string]bool{"of a server as it comes": false, "of one that waits for its disk": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := []Option{WithTTL(3 * time.Second), WithLongestTTL(3 * time.Second), WithLogger(storecheck.Logger(t))}
			var setting []servers.Option
			if always {
				setting = append(setting, servers.Fsync())
			}
			m := servers.NATS(t, setting...).Member(0)
			if always {
				opts = append(opts, WithMonitor(monitor(m)), WithClient(coord.Require(coord.Strength{Restart: coord.Remembers})))
			}
			connect := func() *coord.Client {
				return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) { return Connect(ctx, m.URL(), opts...) })
			}
			a, b := connect(), connect()
			h := storecheck.Locked(t, a, "orders")
			next := make(chan *coord.Hold, 1)
			go func() {
				hold, err := mutex.New(b, "orders").Lock(within(t, time.Minute))
				if err != nil {
					t.Error(err)
				}
				if h.Err() == nil {
					t.Error("two hold")
				}
				next <- hold
			}()
			storecheck.Eventually(t, "the other one waits", func() bool {
				nodes, err := a.Line(within(t, 5*time.Second), "orders")
				return err == nil && len(nodes) == 2
			})
			m.Restart(t)
			if always {
				time.Sleep(4 * time.Second) // longer than a session
				if err := h.Err(); err != nil {
					t.Errorf("the hold has ended: %v", err)
				}
				if err := h.Release(); err != nil {
					t.Error(err)
				}
			} else {
				storecheck.EndsSoon(t, h)
			}
			second := <-next
			if second == nil {
				return
			}
			if rises := second.Token() > h.Token(); rises != always {
				t.Errorf("token %d comes after %d", second.Token(), h.Token())
			}
			if err := second.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}
