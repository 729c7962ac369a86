package nats

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/docs"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// within returns a context that lasts for d, or until the test and all that it cleans up has ended.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// opened opens a store.
func opened(t testing.TB, m *servers.Member, opts ...Option) *Store {
	t.Helper()
	s, err := Open(within(t, time.Minute), m.URL(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// operator is a connection of somebody who may do anything.
func operator(t testing.TB, m *servers.Member) *natsgo.Conn {
	t.Helper()
	// It comes back at once after a restart, so that no later scenario finds goroutines that it does not know.
	nc, err := natsgo.Connect(m.URL(), natsgo.ReconnectWait(10*time.Millisecond), natsgo.ReconnectJitter(0, 0), natsgo.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// removeStreams takes away all streams, as an operator may.
func removeStreams(t testing.TB, m *servers.Member) {
	t.Helper()
	nc, err := natsgo.Connect(m.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames() {
		if err := js.DeleteStream(name); err != nil {
			t.Fatal(err)
		}
	}
}

func monitor(m *servers.Member) string { return fmt.Sprintf("http://127.0.0.1:%d", m.Port("monitor")) }

// system is one server. If it waits for its disk, its monitor says so.
func system(t testing.TB, opts ...servers.Option) *storetest.System {
	m := servers.NATS(t, opts...).Member(0)
	var more []Option
	if len(opts) > 0 {
		more = append(more, WithMonitor(monitor(m)))
	}
	stranger := operator(t, m)
	return &storetest.System{
		TTL:   2 * time.Second,
		Ages:  true,
		Clock: true,
		Limit: maxValue,
		Open:  func(t testing.TB) register.Store { return opened(t, m, more...) },
		Tell: func(_ testing.TB, topic string, note []byte) error {
			msg := natsgo.NewMsg(defaultRoot + ".told.anything")
			msg.Header.Set(notesHeader, encodeNotes([]register.Note{{Topic: topic, Text: note}}))
			return stranger.PublishMsg(msg)
		},
		Spoil: func(t testing.TB, key string) {
			known, err := opened(t, m, more...).known.Current()
			if err == nil {
				err = stranger.Publish(known.subject(defaultRoot, key), []byte("hello"))
			}
			if err == nil {
				err = stranger.FlushTimeout(time.Minute)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		Restart: m.Restart,
		Forget:  func(t testing.TB) { removeStreams(t, m) },
		Freeze: func(t testing.TB) func() {
			m.Freeze()
			return m.Thaw
		},
	}
}

// each runs a suite on a server as it comes. The suites count goroutines, so one runs at a time. On a server that waits for its disk
// the store differs in nothing but what it makes of a restart, which TestARestart shows as well: there they run with TURNWISE_LONG=1.
func each(t *testing.T, run func(t *testing.T, system func(t testing.TB) *storetest.System)) {
	t.Run("as it comes", func(t *testing.T) {
		run(t, func(t testing.TB) *storetest.System { return system(t) })
	})
	if os.Getenv("TURNWISE_LONG") == "" {
		return
	}
	t.Run("that waits for its disk", func(t *testing.T) {
		run(t, func(t testing.TB) *storetest.System { return system(t, servers.Fsync()) })
	})
}

func TestStore(t *testing.T) {
	each(t, func(t *testing.T, system func(t testing.TB) *storetest.System) { storetest.Run(t, system) })
}

func TestDriver(t *testing.T) {
	each(t, func(t *testing.T, system func(t testing.TB) *storetest.System) {
		drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t)) })
	})
}

func TestRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service {
		sys := system(t)
		sys.TTL = 6 * time.Second
		return storetest.Service(t, sys)
	})
}

func TestTheTableOfEnginesHasOurRow(t *testing.T) {
	if row := docs.MissingInEngines("coord/nats", register.New(&Store{}).Strength()); row != "" {
		t.Errorf("docs/engines.md lacks\n%s", row)
	}
}
