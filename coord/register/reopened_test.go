package register_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// started is a store that says for how long its server has been up, as those of Redis, PostgreSQL, MariaDB and NATS do.
type started struct {
	*replaceable
	since atomic.Pointer[time.Time]
	gate  chan struct{} // Listen waits for it, if there is one: PostgreSQL's waits until it listens again
	slow  atomic.Bool
}

func (s *started) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if s.down.Load() {
		return errDown
	}
	return s.to().List(ctx, prefix, yield)
}

func (s *started) Memory(ctx context.Context) (register.Memory, error) {
	if s.down.Load() {
		return register.Memory{}, errDown
	}
	return register.Memory{ID: "the same", For: time.Since(*s.since.Load())}, nil
}

func (s *started) Listen(ctx context.Context, topic string, hear func([]byte)) (func(), error) {
	if s.slow.Load() {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.to().Listen(ctx, topic, hear)
}

// runs is a store that connects again by itself, and says since when its server has been up.
type runs struct {
	register.Store
	since *atomic.Pointer[time.Time]
}

func (r runs) RunsSince() time.Time { return *r.since.Load() }

// ways are the store as it is, of which a request has to fail, and as one that connects again by itself, so that none does.
func ways(t *testing.T, do func(t *testing.T, fails bool)) {
	t.Run("a request fails", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { do(t, true) }) })
	t.Run("none fails", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { do(t, false) }) })
}

// A server is restarted with an older disk between the answer to Memory and the swap that makes a session. Somebody else of this
// process was told that it failed (here who lists the lines).
func TestNobodyEntersOnASessionThatWasOpenedWhileAnOlderDiskCame(t *testing.T) {
	ways(t, func(t *testing.T, fails bool) {
		server := memory.NewStore()
		at := time.Now()
		way := &started{replaceable: &replaceable{Store: server}, gate: make(chan struct{})}
		way.since.Store(&at)
		time.Sleep(time.Minute)
		d := register.New(way)
		if !fails {
			d = register.New(runs{way, &way.since})
		}
		defer shut(t, d)
		// the others' settings stand already
		holding, holder := open(t, server)
		defer shut(t, holding)
		disk := copyOf(t, server)
		join(t, holder, "orders")
		holdersDeadline := holder.Deadline()

		way.slow.Store(true)
		opened := make(chan driver.Session, 1)
		go func() {
			s, err := d.Open(t.Context())
			if err != nil {
				t.Error("open:", err)
			}
			opened <- s
		}()
		time.Sleep(10 * time.Millisecond) // Memory is answered, Listen is not
		if fails {
			way.down.Store(true) // the server is killed
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := d.Memo(ctx, "something") // somebody only looks, and is told
			cancel()
			if err == nil {
				t.Error("it is down")
			}
		}
		way.other.Store(disk) // it comes back with an older disk
		now := time.Now()
		way.since.Store(&now)
		way.down.Store(false)
		time.Sleep(200 * time.Millisecond)
		close(way.gate)
		s := <-opened
		if s == nil {
			return
		}
		_, ahead, err := s.Join(t.Context(), driver.Entry{Line: "orders", Kind: rules.Lock})
		if err == nil && len(ahead) == 0 && time.Now().Before(holdersDeadline) {
			t.Errorf("two hold: the other one for another %v", time.Until(holdersDeadline))
		}
	})
}

// setBack says what a store says whose server was started with a clock that is behind: the memory is the same, and has not begun yet.
type setBack struct {
	*started
	behind atomic.Bool
}

func (s *setBack) Memory(ctx context.Context) (register.Memory, error) {
	m, err := s.started.Memory(ctx)
	if s.behind.Load() {
		m.For = -time.Second
	}
	return m, err
}

// A server comes back with an older disk, which knows neither the holder nor the session of somebody else, and with a clock that is
// behind. He opens another session at once.
func TestAClockThatIsBehindAfterARestartLetsNobodyIn(t *testing.T) {
	ways(t, func(t *testing.T, fails bool) {
		server := memory.NewStore()
		at := time.Now()
		way := &setBack{started: &started{replaceable: &replaceable{Store: server}}}
		way.since.Store(&at)
		time.Sleep(time.Minute)
		holding, holder := open(t, server)
		defer shut(t, holding)
		disk := copyOf(t, server) // the settings, and no more of anybody
		var store register.Store = way
		if !fails {
			store = runs{way, &way.since}
		}
		d, s := open(t, store)
		defer shut(t, d)
		time.Sleep(time.Minute)
		leave(t, join(t, s, "something else"))
		join(t, holder, "orders")
		holdersDeadline := holder.Deadline()
		if fails {
			way.down.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			_, _ = d.Memo(ctx, "something")
			cancel()
		}
		way.other.Store(disk)
		now := time.Now()
		way.since.Store(&now)
		way.behind.Store(true)
		way.down.Store(false)
		<-s.Done() // his session is not there
		began := time.Now()
		again, err := d.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, ahead, err := again.Join(t.Context(), driver.Entry{Line: "orders", Kind: rules.Lock})
		if err == nil && len(ahead) == 0 && time.Now().Before(holdersDeadline) {
			t.Errorf("two hold %v later: the other one for another %v", time.Since(began), time.Until(holdersDeadline))
		}
	})
}
