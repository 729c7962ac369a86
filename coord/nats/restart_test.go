package nats

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
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

// The stream was made when the server's clock was ahead, and that was put right. By its clock it will be made next year.
func TestAClockThatWasPutRightKeepsNobody(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Shared()).Member(0)
	year := time.Now().Year()
	ahead := rewritten(t, m.Addr(), fmt.Appendf(nil, `"created":"%d-`, year), fmt.Appendf(nil, `"created":"%d-`, year+1))
	c := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
		return Connect(ctx, "nats://"+ahead, WithRoot("ahead"), WithTTL(2*time.Second), WithLongestTTL(2*time.Second))
	})
	if _, err := mutex.New(c, "a").Lock(within(t, 30*time.Second)); err != nil {
		t.Errorf("lock: %v", err)
	}
}

// rewritten returns the address of a server whose lines have one text in the place of another, which is as long.
func rewritten(t testing.TB, server string, is, want []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	serve := func(client net.Conn) {
		defer client.Close()
		far, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer far.Close()
		go func() {
			_, _ = io.Copy(far, client)
			far.Close()
		}()
		for from := bufio.NewReader(far); ; {
			line, err := from.ReadBytes('\n')
			if _, failed := client.Write(bytes.ReplaceAll(line, is, want)); err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go serve(client)
		}
	}()
	return l.Addr().String()
}

func TestAConnectionThatIsSlowToBeMadeIsMade(t *testing.T) {
	storecheck.SlowToConnect(t, servers.NATS(t).Member(0), 100*time.Millisecond, func(ctx context.Context, url string) (register.Store, error) {
		return Open(ctx, url)
	})
}
