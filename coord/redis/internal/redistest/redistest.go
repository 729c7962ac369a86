// Package redistest has what the tests of coord/redis and of coord/redis/quorum share: short words for what a scenario does
// with a store, and for what an operator does with a server. Whatever fails ends the test.
package redistest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
)

// Rights is what the documentation says that a user needs.
const Rights = "~turnwise* resetchannels &turnwise* +ping +info +client|info +config|get +subscribe +unsubscribe +publish +eval +evalsha +time " +
	"+get +getrange +set +setrange +del +zadd +zrem +zrangebylex"

// Within returns a context that lasts for d, or until the test and all that it cleans up has ended.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Put swaps a text in over whatever stands there.
func Put(t testing.TB, s register.Store, key, text string, notes ...register.Note) register.Item {
	t.Helper()
	it, err := s.Read(Within(t, 10*time.Second), key)
	if err == nil {
		swap := register.Swap{Key: key, Old: it.Version, Next: register.NewVersion(), Value: []byte(text), Notes: notes}
		it, err = s.Swap(Within(t, 10*time.Second), swap)
	}
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// Read returns what stands in a register.
func Read(t testing.TB, s register.Store, key string) register.Item {
	t.Helper()
	it, err := s.Read(Within(t, 10*time.Second), key)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// Remembered returns the memory of a store.
func Remembered(t testing.TB, s register.Store) register.Memory {
	t.Helper()
	m, err := s.Memory(Within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// CLI sends a command to a server as an operator would, and returns the answer: a text, or several in one line.
func CLI(t testing.TB, address string, command ...string) string {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reply, err := c.Do(Within(t, 10*time.Second), c.B().Arbitrary(command...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%v: %v", command, err)
	}
	if texts, err := reply.AsStrSlice(); err == nil {
		return strings.Join(texts, " ")
	}
	if n, err := reply.AsInt64(); err == nil && reply.IsInt64() {
		return strconv.FormatInt(n, 10)
	}
	text, _ := reply.ToString()
	return text
}

// Loud returns what is to be said at a server by a user who may publish to every channel, and see which there are, but reads
// and writes no key. That is what a new user may do on Redis 6.2.
func Loud(t testing.TB, address string) (publish func(topic string, note []byte) error) {
	CLI(t, address, "ACL", "SETUSER", "loud", "reset", "on", "nopass", "&*", "+publish", "+pubsub", "+@connection")
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, Username: "loud", DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return func(topic string, note []byte) error {
		channels, err := c.Do(context.Background(), c.B().PubsubChannels().Pattern("*"+topic).Build()).AsStrSlice()
		for _, channel := range channels {
			if err == nil {
				err = c.Do(context.Background(), c.B().Publish().Channel(channel).Message(string(note)).Build()).Error()
			}
		}
		return err
	}
}

// Heard collects notes; a nil is "lost".
type Heard struct {
	mu  sync.Mutex
	all []string
}

// Hear is what a store calls with each note.
func (h *Heard) Hear(note []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if note == nil {
		h.all = append(h.all, "lost")
	} else {
		h.all = append(h.all, string(note))
	}
}

// Notes returns what was heard so far.
func (h *Heard) Notes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// Await waits until a note was heard.
func (h *Heard) Await(t testing.TB, what string) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !slices.Contains(h.Notes(), what); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it never hears %s", what)
		}
	}
}

// Listen listens to a topic until stop is called or the test ends.
func Listen(t testing.TB, s register.Store, topic string) (h *Heard, stop func()) {
	t.Helper()
	h = &Heard{}
	stop, err := s.Listen(Within(t, 20*time.Second), topic, h.Hear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return h, stop
}

// Patient is a service for recipes: see storetest.System.
func Patient(t testing.TB, sys *storetest.System) *drivertest.Service {
	sys.TTL = 6 * time.Second
	return storetest.Service(t, sys)
}
