package edges

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/integration/service"
	"github.com/turnwise/turnwise/verify/servers"
)

const ttl = 10 * time.Second

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func onBoth(t *testing.T, play func(t *testing.T, ctx context.Context, s service.Service, cluster *servers.Cluster)) {
	for _, s := range service.Both {
		t.Run(s.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			play(t, ctx, s, s.Start(t, servers.Shared()))
		})
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// One value that is too large must not cut off the client's other locks.
func TestDataAtTheLimitAndOneOver(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, s service.Service, cluster *servers.Cluster) {
		c := s.Client(t, cluster.Addrs(), ttl)
		other := must[*coord.Hold](t)(mutex.New(c, "another").Lock(ctx))
		defer other.Release()
		waiting := mutex.New(c, "another").LockChan(ctx)

		value := bytes.Repeat([]byte{0xff}, coord.MaxData)
		term, err := election.New(c, "large").Campaign(ctx, value)
		if err != nil {
			t.Fatal(err)
		}
		leader, err := election.New(c, "large").Leader(ctx)
		if err != nil || !bytes.Equal(leader.Data, value) {
			t.Errorf("the leader's value has %d bytes (%v), want %d", len(leader.Data), err, len(value))
		}
		over := append(value, 1)
		for what, err := range map[string]error{
			"proclaim": term.Proclaim(ctx, over),
			"campaign": func() error { _, err := election.New(c, "larger").Campaign(ctx, over); return err }(),
		} {
			if !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(coord.MaxData)) {
				t.Errorf("%s with one byte more: %v; want ErrInvalid and the limit", what, err)
			}
		}
		if err := term.Release(); err != nil {
			t.Error(err)
		}
		if err := other.Err(); err != nil {
			t.Errorf("another lock of the client: %v", err)
		}
		other.Release()
		if r := <-waiting; r.Err != nil {
			t.Errorf("a waiter of the client: %v", r.Err)
		} else {
			r.Hold.Release()
		}
	})
}

// A TTL of zero or less is refused, and so is one with which a crashed holder would block its line for too long.
func TestSessionTimeouts(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, s service.Service, cluster *servers.Cluster) {
		for _, bad := range []time.Duration{0, -time.Second} {
			if c, err := s.Connect(ctx, cluster.Addrs(), bad); err == nil {
				c.Close()
				t.Errorf("a session timeout of %v is taken", bad)
			}
		}
		// A TTL shorter or longer than the service grants becomes what it does grant, and holds last that long.
		for _, odd := range []time.Duration{time.Nanosecond, time.Millisecond, 24 * time.Hour} {
			c, err := s.Connect(ctx, cluster.Addrs(), odd)
			if err != nil {
				t.Logf("%v is refused: %v", odd, err)
				continue
			}
			h, err := mutex.New(c, "odd").Lock(ctx)
			if err != nil {
				t.Errorf("with a session timeout of %v: %v", odd, err)
				c.Close()
				continue
			}
			left := time.Until(h.Deadline())
			t.Logf("asked for %v: surely held for %v", odd, left.Round(time.Millisecond))
			if left <= 0 || left > odd+5*time.Second {
				t.Errorf("with a session timeout of %v it is held for %v", odd, left)
			}
			time.Sleep(300 * time.Millisecond)
			if err := h.Release(); err != nil {
				t.Errorf("with a session timeout of %v: %v", odd, err)
			}
			c.Close()
		}
	})
}

func TestAnOperatorRemovesEverything(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, s service.Service, cluster *servers.Cluster) {
		c, d := s.Client(t, cluster.Addrs(), ttl), s.Client(t, cluster.Addrs(), ttl)
		h := must[*coord.Hold](t)(mutex.New(c, "removed/line").Lock(ctx))
		waiting := mutex.New(d, "removed/line").LockChan(ctx)
		for nodes := []coord.Node{}; len(nodes) < 2; {
			nodes = must[[]coord.Node](t)(d.Line(ctx, "removed/line"))
		}
		time.Sleep(200 * time.Millisecond) // the node of a hold that lasts is watched

		removeAll(t, ctx, s, cluster)
		select {
		case <-h.Context().Done():
			if !errors.Is(h.Err(), coord.ErrLost) {
				t.Errorf("the holder is told %v, want ErrLost", h.Err())
			}
		case <-time.After(ttl / 2):
			t.Error("the holder is not told")
		}
		// The waiter lost its place, or had its turn for a moment if the holder was removed first.
		if r := <-waiting; r.Err == nil {
			select {
			case <-r.Hold.Context().Done():
			case <-time.After(ttl / 2):
				t.Error("the next holder is not told")
			}
			r.Hold.Release()
		} else if !errors.Is(r.Err, coord.ErrRemoved) {
			t.Errorf("the waiter is told %v, want ErrRemoved", r.Err)
		}
		again := must[*coord.Hold](t)(mutex.New(d, "removed/line").Lock(ctx))
		if again.Token() <= h.Token() {
			t.Errorf("token %d after %d", again.Token(), h.Token())
		}
		if err := again.Release(); err != nil {
			t.Error(err)
		}
		if err := h.Release(); !errors.Is(err, coord.ErrLost) {
			t.Errorf("release of what was lost: %v", err)
		}
	})
}

// removeAll takes away all that the driver keeps, like an operator who knows no better.
func removeAll(t *testing.T, ctx context.Context, s service.Service, cluster *servers.Cluster) {
	t.Helper()
	if s.Name == "etcd" {
		client := must[*clientv3.Client](t)(clientv3.New(clientv3.Config{Endpoints: cluster.Addrs(), Logger: zap.NewNop()}))
		defer client.Close()
		if _, err := client.Delete(ctx, "turnwise/", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		return
	}
	conn, events, err := gozk.Connect(cluster.Addrs(), 10*time.Second, gozk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		conn.Close()
		for range events {
		}
	}()
	var remove func(path string)
	remove = func(path string) {
		names, _, err := conn.Children(path)
		if err != nil {
			return
		}
		for _, name := range names {
			remove(path + "/" + name)
		}
		_ = conn.Delete(path, -1)
	}
	remove("/turnwise")
}

func TestAClientIsClosedWhileAThousandWait(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, s service.Service, cluster *servers.Cluster) {
		holder, c := s.Client(t, cluster.Addrs(), ttl), s.Client(t, cluster.Addrs(), ttl)
		h := must[*coord.Hold](t)(mutex.New(holder, "thousand").Lock(ctx))
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if hold, err := mutex.New(c, "thousand").Lock(ctx); !errors.Is(err, coord.ErrClosed) {
					t.Errorf("%v, %v; want ErrClosed", hold, err)
				}
			})
		}
		stand := func() int {
			for {
				switch all, err := holder.Line(ctx, "thousand"); {
				case err == nil:
					return len(all)
				case ctx.Err() != nil || !errors.Is(err, coord.ErrUnavailable):
					t.Fatal(err)
				} // a thousand joins on a busy machine may take longer than a request may
			}
		}
		for stand() < 1001 {
			time.Sleep(20 * time.Millisecond)
		}
		began := time.Now()
		c.Close()
		all.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("they came back %v after the client was closed", took)
		}
		for stand() != 1 {
			time.Sleep(20 * time.Millisecond)
		}
		if err := h.Release(); err != nil {
			t.Error(err)
		}
	})
}
