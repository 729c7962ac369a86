package storetest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/attempt"
)

// System is where the registers of a store are: what the suite needs to know about it, and to do to it. The author of a
// store fills it in. Only Open is required. A field that is nil or zero is something that the system does not have or that
// the author cannot do; the scenarios that need it are skipped and say so.
//
// All functions are called from several goroutines at once. A function that fails to do what it is asked says so with
// t.Fatal.
type System struct {
	// Open returns a store that shares nothing with the others in this process but the system, as if each were in a
	// process of its own, and has asked it for its Memory once. It is closed when t ends; closing it a second time must do no harm.
	Open func(t testing.TB) register.Store

	// Mute says that the stores cannot tell: Listen returns ErrMute.
	Mute bool

	// Ages says that the stores tell the age of an item, and Clock that they also tell what their clock says.
	Ages, Clock bool

	// Limit is the size in bytes of the largest value that the stores can keep. Zero: 1 MB is not too much.
	Limit int

	// TTL is how long Service's sessions live. Zero: a second. Give servers two, since a busy machine may hold them up,
	// and six for recipes, which need no short sessions.
	TTL time.Duration

	// Restart ends the system with kill -9 and starts it again, on its data and at its address. It returns when the
	// system can be reached. The stores stay open.
	Restart func(t testing.TB)

	// Failover takes away the machine that leads, and returns when another one has taken over. drivertest uses it to check what
	// the store's Strength says.
	Failover func(t testing.TB)

	// Forget makes the system lose what it has answered, as when a replica that lags behind takes over. It returns when
	// the system can be reached.
	Forget func(t testing.TB)

	// Lose makes the system throw away what stands under one key, as a cache does when it is full, and nothing else. Leave it out
	// if the system refuses to be set up so that this can happen.
	Lose func(t testing.TB, key string)

	// Spoil writes something that no store has written where a register is kept, as who may write to that one could.
	Spoil func(t testing.TB, key string)

	// Freeze stops the system without ending it, as kill -STOP does, until thaw is called. thaw may be called twice.
	// Connections stay open and nothing is answered.
	Freeze func(t testing.TB) (thaw func())

	// Tell tells a note with no other right at the system than one to tell, where that is a right of its own. It does nothing if
	// nobody listens. Nil: strangers tell by swaps of registers that nobody else uses.
	Tell func(t testing.TB, topic string, note []byte) error

	// Address is what another process opens a store with; see Main. It is for a register.Presence only.
	Address string
}

// Run checks a store. start is called once; all scenarios use the system that it returns, with keys and topics of their
// own.
func Run(t *testing.T, start func(t testing.TB) *System) {
	sys := start(t)
	if sys.Open == nil {
		t.Fatal("storetest: the System must give Open")
	}
	sys.tryOpen(t)
	places := make(chan struct{}, 4) // so that a server's connections suffice
	var crowd sync.WaitGroup
	for _, o := range obligations {
		crowd.Go(func() {
			t.Run(o.name, func(t *testing.T) { o.playTogether(t, sys, places) })
		})
	}
	crowd.Wait()
	t.Run("alone", func(t *testing.T) {
		for _, o := range obligations {
			for _, sc := range o.scenarios {
				if sc.alone {
					t.Run(o.name+"/"+sc.name, func(t *testing.T) { sc.show(t, sys) })
				}
			}
		}
	})
}

// tryOpen checks what every scenario rests on, so that not each of them says it in its own way.
func (sys *System) tryOpen(t testing.TB) {
	t.Helper()
	a, b := sys.Open(t), sys.Open(t)
	if v := reflect.ValueOf(a); v.Comparable() && a == b {
		t.Fatal("storetest: System.Open returned the same store twice: each must be a new one")
	}
	ctx, cancel := context.WithTimeout(context.Background(), attempt.Patience())
	defer cancel()
	for _, store := range []register.Store{a, b} {
		if _, err := store.Read(ctx, "storetest"); errors.Is(err, register.ErrForgot) {
			t.Fatalf("storetest: Read of a store that was opened just now: %v: System.Open must call Memory once", err)
		}
	}
}

// An obligation of a store, as a subtest, and the scenarios that show it.
type obligation struct {
	name      string
	scenarios []scenario
}

// A scenario shows one thing. It is a function of a testing.TB, so that the suite's own tests can see it fail.
type scenario struct {
	name  string
	run   func(s *scene)
	alone bool // it counts or times something that others would disturb, or disturbs others
}

var obligations = []obligation{
	{"01 a swap is applied once or not at all", swaps},
	{"02 a read is no staler than the call", reads},
	{"03 keys are told apart", keys},
	{"04 a value is any bytes", values},
	{"05 a list misses nothing", lists},
	{"06 notes come in order, and neither early nor lost in silence", listens},
	{"07 every call ends with its context", contexts},
	{"08 a reservation ends", reservations},
	{"09 the age is that of the last swap", ages},
	{"10 a store that forgets says so", memories},
	{"11 nothing leaks", closings},
	{"12 a key is kept as long as its process lives", presences},
	{"13 what a stranger tells", strangers},
}

// playTogether plays the scenarios that do not disturb each other, as many at once as there are places.
func (o obligation) playTogether(t *testing.T, sys *System, places chan struct{}) {
	var all sync.WaitGroup
	for _, sc := range o.scenarios {
		if sc.alone {
			continue
		}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t.Run(sc.name, func(t *testing.T) { sc.show(t, sys) })
		})
	}
	all.Wait()
}
