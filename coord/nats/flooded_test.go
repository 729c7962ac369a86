package nats

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// What a hold lives by does not wait behind what somebody tells, however much that is.
func TestAStrangerWhoTellsMoreThanFitsEndsNoHold(t *testing.T) {
	n := neighbour(t, []string{"turnwise.told.>"}, nil)
	c := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
		return Connect(ctx, "nats://turnwise:ours@"+storecheck.Clogged(t, n.Addr(), 4<<20), WithTTL(4*time.Second), WithLongestTTL(4*time.Second),
			WithLogger(storecheck.Logger(t)))
	})
	h := storecheck.Locked(t, c, "orders")
	much := make([]byte, 1<<20)
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end) && h.Err() == nil; {
		if err := n.stranger.Publish("turnwise.told.x", much); err != nil {
			t.Fatal(err)
		}
		if err := n.stranger.FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	storecheck.ShutsOut(t, c, n.b, "orders")
}

// A server that reads nothing any more takes what is sent to it until no more fits on the way. The library would wait for five seconds.
func TestAServerThatReadsNothingHoldsUpNoCall(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	s := opened(t, m)
	m.Freeze()
	defer m.Thaw()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			ctx := within(t, time.Second)
			_, err := s.Swap(ctx, register.Swap{Key: fmt.Sprint("line/", i), Next: register.NewVersion(), Value: make([]byte, 800_000)})
			if end, _ := ctx.Deadline(); time.Since(end) > 4*time.Second {
				t.Errorf("a call went on for %v after the end of its context: %v", time.Since(end), err)
			}
		})
	}
	all.Wait()
	began := time.Now()
	if err := s.Close(); err != nil || time.Since(began) > 20*time.Second {
		t.Errorf("Close took %v: %v", time.Since(began), err)
	}
}

// Who may write to one line can write there what the server takes away after a second, with whatever headers. That is no sign that it
// loses anything else, whoever has seen what stood there.
func TestAStrangerWhoseLineExpiresEndsNoOtherHold(t *testing.T) {
	his := "turnwise.r.*.*." + base64.RawURLEncoding.EncodeToString([]byte("line/orders"))
	valid := strings.Repeat("\x01", 8)
	for name, c := range map[string]struct {
		says  natsgo.Header
		body  string
		looks bool
	}{
		"nobody looks":              {nil, valid, false},
		"its holder looks":          {nil, valid, true},
		"it says of which register": {natsgo.Header{"Nats-Subject": {"x"}, "Nats-Sequence": {"1"}}, valid, true},
		"it is no register":         {nil, "x", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := neighbour(t, []string{his}, nil)
			n.mayNot(t, n.subject(t, "other"), "")
			storecheck.LineTaken(t, n.a, n.b, func() {
				m := natsgo.NewMsg(n.subject(t, "orders"))
				for key, values := range c.says {
					m.Header[key] = values
				}
				m.Header.Set(ttlHeader, "2s")
				m.Data = []byte(c.body)
				if _, err := n.stranger.RequestMsg(m, 10*time.Second); err != nil {
					t.Fatal(err)
				}
				switch {
				case c.looks && c.body == valid:
					storecheck.IsNoLine(t, n.a, "orders")
				case c.looks:
					_, _ = n.a.Line(within(t, 10*time.Second), "orders")
				}
				time.Sleep(4 * time.Second)
				if nodes, err := n.a.Line(within(t, 10*time.Second), "orders"); err != nil || len(nodes) > 0 {
					t.Errorf("there stand %v, %v", nodes, err)
				}
			})
		})
	}
}

// Who empties a register leaves a message that expires. Somebody who slept for longer than that, and has seen what was there before,
// finds an empty register, and no loss.
func TestWhatWasEmptiedLongAgoIsNoLoss(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	s := opened(t, m)
	before := remembered(t, s)
	put(t, s, "session/1", "x")
	known, err := s.known.Current()
	if err != nil {
		t.Fatal(err)
	}
	empty := natsgo.NewMsg(known.subject(defaultRoot, "session/1"))
	empty.Header.Set(ttlHeader, "1s")
	empty.Data = make([]byte, 8)
	if _, err := operator(t, m).RequestMsg(empty, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if it, err := s.Read(within(t, 10*time.Second), "session/1"); err != nil || !it.Version.IsZero() {
		t.Errorf("there is %v, %v", it, err)
	}
	if now := remembered(t, s); now.ID != before.ID {
		t.Errorf("it is the memory %v, and was %v", now, before)
	}
}

// Somebody who makes a stream before we do, or in the place of ours, chooses what its memory is called.
func TestAStrangerWhoNamesTheMemory(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	nc := operator(t, m)
	s := opened(t, m)
	known, err := s.known.Current()
	if err != nil {
		t.Fatal(err)
	}
	makes := func(id, more string) {
		t.Helper()
		removeStreams(t, m)
		makeStream(t, nc, s.streamOf(id, known.run), more)
	}
	remembered(t, s)
	put(t, s, "line/orders", "x")
	// Whoever is connected, and has seen nothing of a line, must not take it for empty.
	makes(known.id, `"first_seq":1`)
	for i := range 10 { // as many as we have seen, and more
		if _, err := nc.Request(known.subject(defaultRoot, fmt.Sprint("line/", i)), make([]byte, 8), 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	forgets(t, "Read", reading(s, "line/other"))
	if now := remembered(t, s); now.ID == known.id || now.For > time.Minute {
		t.Errorf("it is the memory %v, and was %v", now, known.id)
	}
	// And none has a name that stands for others.
	for _, id := range []string{"*", "a.b", "0123456789ABCDEF", "0123456789abcde*"} {
		makes(id, `"first_seq":1`)
		refused(t, coord.ErrDenied, "not ours", m.URL())
	}
}

func makeStream(t *testing.T, nc *natsgo.Conn, cfg stream, more string) {
	t.Helper()
	b, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := nc.Request("$JS.API.STREAM.CREATE."+cfg.Name, []byte(strings.TrimSuffix(string(b), "}")+","+more+"}"), 10*time.Second)
	if err != nil || strings.Contains(string(answer.Data), `"error"`) {
		t.Fatalf("%v: %s", err, answer.Data)
	}
}
