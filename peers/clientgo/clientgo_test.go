package clientgo_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/peers/clientgo"
	"github.com/turnwise/turnwise/recipes/election"
)

// The usual ones, as controller-runtime has them.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	ttl           = 30 * time.Second
)

// leaders are those who lead, as client-go's electors say.
type leaders struct {
	testing.TB
	mu   sync.Mutex
	now  []string
	told []string // who began to lead, in order
}

func (l *leaders) begin(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now = append(l.now, name); len(l.now) > 1 {
		l.Errorf("two lead: %v", l.now)
	}
	l.told = append(l.told, name)
}

func (l *leaders) end(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = slices.DeleteFunc(l.now, func(n string) bool { return n == name })
}

// who leads, if anybody does.
func (l *leaders) who() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.now, " and ")
}

// times are an elector's.
type times struct{ lease, renew, retry time.Duration }

// run runs client-go's own elector again and again, as processes do that are started again, until stop is called. It has client-go's
// usual times, all of them this many times shorter.
func (l *leaders) run(name string, lock resourcelock.Interface, shorter time.Duration, givesUp bool, over func()) (stop func()) {
	l.Helper()
	return l.runWith(times{leaseDuration / shorter, renewDeadline / shorter, retryPeriod / shorter}, name, lock, givesUp, over)
}

func (l *leaders) runWith(t times, name string, lock resourcelock.Interface, givesUp bool, over func()) (stop func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	ended := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: t.lease, RenewDeadline: t.renew, RetryPeriod: t.retry, ReleaseOnCancel: givesUp,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { l.begin(name); <-ctx.Done(); l.end(name) },
			OnStoppedLeading: func() { l.end(name) },
		},
	})
	if err != nil {
		l.Fatal(err)
	}
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			elector.Run(ctx)
			over()
		}
	}()
	return sync.OnceFunc(func() { cancel(); <-ended; over() })
}

// play has electors of client-go in simulated time, on a service in memory.
type play struct {
	*leaders
	service *mem.Service
}

func plays(t *testing.T, scenario func(p *play), opts ...mem.Option) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(append([]mem.Option{mem.WithTTL(ttl)}, opts...)...)
		defer s.Close()
		scenario(&play{&leaders{TB: t}, s})
		time.Sleep(10 * time.Minute) // by then nobody stands for whom nobody asks
	})
}

// client is that of one process.
func (p *play) client() *coord.Client {
	c := p.service.Client()
	p.Cleanup(func() { c.Close() })
	return c
}

func (p *play) lock(c *coord.Client, name string) *clientgo.Lock {
	return clientgo.New(election.New(c, "reports"), name)
}

// runs runs an elector until stop is called. It gives up its lead then, if it is to.
func (p *play) runs(name string, lock resourcelock.Interface, givesUp bool) (stop func()) {
	return p.run(name, lock, 1, givesUp, synctest.Wait)
}

// leader waits until one leads, and says who it is.
func (p *play) leader(within time.Duration) string {
	p.Helper()
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		if name := p.who(); name != "" {
			return name
		}
		if time.Now().After(end) {
			p.Fatalf("nobody leads within %v", within)
		}
	}
}

func (p *play) isLed(by string, within time.Duration) {
	p.Helper()
	if is := p.leader(within); is != by {
		p.Fatalf("%s leads, want %s", is, by)
	}
}

const soon = 3 * retryPeriod // client-go asks every two or three seconds

func TestElectorsFollowInTheOrderInWhichTheyCame(t *testing.T) {
	plays(t, func(p *play) {
		var stops []func()
		for i := range 4 {
			name := fmt.Sprint("process ", i)
			stops = append(stops, p.runs(name, p.lock(p.client(), name), true))
			time.Sleep(5 * time.Second)
		}
		for i, stop := range stops {
			p.isLed(fmt.Sprint("process ", i), soon)
			time.Sleep(time.Minute) // it goes on leading
			p.isLed(fmt.Sprint("process ", i), 0)
			stop()
		}
		if len(p.told) != 4 {
			t.Errorf("led in turn: %v", p.told)
		}
	})
}

func TestWhoIsCutOffStopsBeforeTheNextBegins(t *testing.T) {
	for name, cut := range map[string]func(s *mem.Service, c *coord.Client){
		"out of reach":         func(s *mem.Service, c *coord.Client) { s.Partition(c) },
		"for a moment":         func(s *mem.Service, c *coord.Client) { time.AfterFunc(ttl, s.Partition(c)) },
		"for a shorter moment": func(s *mem.Service, c *coord.Client) { time.AfterFunc(ttl/2, s.Partition(c)) },
	} {
		t.Run(name, func(t *testing.T) {
			plays(t, func(p *play) {
				first, second := p.client(), p.client()
				defer p.runs("first", p.lock(first, "first"), false)()
				p.isLed("first", soon)
				stop := p.runs("second", p.lock(second, "second"), true)
				time.Sleep(10 * time.Second)
				cut(p.service, first)
				time.Sleep(3 * ttl)
				if name != "for a shorter moment" {
					p.isLed("second", ttl)
				}
				stop()
			})
		})
	}
}

// An elector that has not asked for long gets no second term in the place of the first: it would not know that somebody else has led in between.
func TestWhoWasStoppedForLongStopsLeading(t *testing.T) {
	plays(t, func(p *play) {
		lock := &pausable{Lock: p.lock(p.client(), "first")}
		stop := p.runs("first", lock, false)
		p.isLed("first", soon)
		lock.pause(time.Minute) // all its calls take that long
		term, err := election.New(p.client(), "reports").Campaign(p.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = term.Release()
		before := len(p.told)
		time.Sleep(3 * time.Minute)
		p.isLed("first", 0)
		if len(p.told) != before+1 {
			t.Errorf("it led all the while: %v", p.told)
		}
		stop()
	})
}

// Nor does one that asks all the time, if somebody else has led between two of its questions.
func TestNobodyLeadsOnThroughTheTermOfAnother(t *testing.T) {
	plays(t, func(p *play) {
		c := p.client()
		defer p.runs("first", p.lock(c, "first"), false)()
		p.isLed("first", soon)
		other := p.client()
		go func() {
			term, err := election.New(other, "reports").Campaign(p.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			_ = term.Release()
		}()
		time.Sleep(time.Second)
		line, err := other.Line(p.Context(), "reports")
		if err != nil || len(line) != 2 {
			t.Fatal(line, err)
		}
		if err := other.Break(p.Context(), line[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		p.isLed("first", 0)
		if p.mu.Lock(); len(p.told) != 2 {
			t.Errorf("it led all the while: %v", p.told)
		}
		p.mu.Unlock()
	})
}

type pausable struct {
	*clientgo.Lock
	mu    sync.Mutex
	until time.Time
}

func (l *pausable) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(d)
}

func (l *pausable) wait() {
	l.mu.Lock()
	d := time.Until(l.until)
	l.mu.Unlock()
	time.Sleep(d)
}

func (l *pausable) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.wait()
	return l.Lock.Get(ctx)
}

func (l *pausable) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	l.wait()
	return l.Lock.Update(ctx, r)
}

// An elector may ask as seldom as it likes: it comes to lead, and leads on. (Whoever asked less than once in fifteen seconds had left before
// he asked again, and nobody ever led.)
func TestWhoAsksSeldomLeads(t *testing.T) {
	for _, c := range []times{
		{leaseDuration, renewDeadline, retryPeriod},
		{time.Minute, 40 * time.Second, 15 * time.Second},
		{137 * time.Second, 107 * time.Second, 26 * time.Second}, // OpenShift's
	} {
		t.Run(c.retry.String(), func(t *testing.T) {
			plays(t, func(p *play) {
				defer p.runWith(c, "alone", p.lock(p.client(), "alone"), true, synctest.Wait)()
				p.isLed("alone", 5*c.retry)
				time.Sleep(time.Hour)
				p.isLed("alone", 0)
				if len(p.told) > 1 {
					t.Errorf("it led %d times", len(p.told))
				}
			}, mem.WithTTL(300*time.Second))
		})
	}
}

// denying refuses everything for a while.
type denying struct {
	register.Store
	now *atomic.Bool
}

func (d denying) may() error {
	if d.now.Load() {
		return fmt.Errorf("%w: not this role", driver.ErrDenied)
	}
	return nil
}

func (d denying) Read(ctx context.Context, key string) (register.Item, error) {
	if err := d.may(); err != nil {
		return register.Item{}, err
	}
	return d.Store.Read(ctx, key)
}

func (d denying) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	if err := d.may(); err != nil {
		return register.Item{}, err
	}
	return d.Store.Swap(ctx, s)
}

func (d denying) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if err := d.may(); err != nil {
		return err
	}
	return d.Store.List(ctx, prefix, yield)
}

// A Role is deleted and made again. (Nobody stood for election afterwards, and nobody was told why.)
func TestWhoWasRefusedForAWhileStandsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, refuses, store := &leaders{TB: t}, new(atomic.Bool), memory.NewStore()
		var lock *clientgo.Lock
		for _, name := range []string{"one", "two"} {
			c := coord.NewClient(register.New(denying{store, refuses}, register.WithTTL(ttl)))
			defer c.Close()
			lock = clientgo.New(election.New(c, "reports"), name)
			defer p.run(name, lock, 1, true, synctest.Wait)()
		}
		time.Sleep(time.Minute)
		if p.who() == "" {
			t.Fatal("nobody leads")
		}
		refuses.Store(true)
		time.Sleep(2 * time.Minute)
		if _, _, err := lock.Get(t.Context()); !errors.Is(err, coord.ErrDenied) {
			t.Errorf("who cannot stand says: %v", err)
		}
		refuses.Store(false)
		time.Sleep(time.Minute)
		if p.who() == "" {
			t.Error("nobody leads")
		}
	})
}

func TestSessionsThatAreTooShortSaySo(t *testing.T) {
	plays(t, func(p *play) {
		l := p.lock(p.client(), "short")
		for range 2 {
			if _, _, err := l.Get(p.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		err := l.Update(p.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "short", LeaseDurationSeconds: 15})
		if err == nil || !strings.Contains(err.Error(), "a leader of client-go believes in it for 15s: the client needs sessions (WithTTL) of twice that") {
			t.Error(err)
		}
		time.Sleep(leaseDuration + time.Second)
		if line, err := p.client().Line(p.Context(), "reports"); err != nil || len(line) > 0 {
			t.Errorf("nobody asks any more, and it stands: %v, %v", line, err)
		}
	}, mem.WithTTL(10*time.Second))
}

// Whose elector cannot be told that it leads makes way for another candidate, and is not first again at once. (It stayed first for ever, and
// nobody led.)
func TestWhoCannotBeToldOfItsTermMakesWay(t *testing.T) {
	p := func(t *testing.T, ttls map[string]time.Duration, scenario func(p *leaders, lock func(name string) *clientgo.Lock)) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			scenario(&leaders{TB: t}, func(name string) *clientgo.Lock {
				c := coord.NewClient(register.New(store, register.WithTTL(cmp.Or(ttls[name], ttl)), register.WithLongestTTL(ttl)))
				t.Cleanup(func() { c.Close() })
				return clientgo.New(election.New(c, "reports"), name)
			})
			time.Sleep(10 * time.Minute)
		})
	}
	t.Run("its sessions are too short", func(t *testing.T) {
		p(t, map[string]time.Duration{"short": 10 * time.Second}, func(p *leaders, lock func(name string) *clientgo.Lock) {
			defer p.run("short", lock("short"), 1, true, synctest.Wait)()
			time.Sleep(5 * time.Second)
			defer p.run("long", lock("long"), 1, true, synctest.Wait)()
			time.Sleep(2*leaseDuration + 3*soon)
			if is := p.who(); is != "long" {
				t.Errorf("%q leads", is)
			}
			time.Sleep(10 * time.Minute)
			if is := p.who(); is != "long" || len(p.told) != 1 {
				t.Errorf("%q leads, and there led %q", is, p.told)
			}
		})
	})
	t.Run("its sessions are too short, and it is alone for a while", func(t *testing.T) {
		p(t, map[string]time.Duration{"short": 10 * time.Second}, func(p *leaders, lock func(name string) *clientgo.Lock) {
			defer p.run("short", lock("short"), 1, true, synctest.Wait)()
			time.Sleep(2*leaseDuration + 3*soon) // it has made way, and is to come back
			defer p.run("long", lock("long"), 1, true, synctest.Wait)()
			time.Sleep(soon)
			if is := p.who(); is != "long" {
				t.Errorf("%q leads", is)
			}
		})
	})
	t.Run("it cannot reach the lease", func(t *testing.T) {
		p(t, nil, func(p *leaders, lock func(name string) *clientgo.Lock) {
			shared := &lease{}
			first := &view{lease: shared, name: "first"}
			first.away.Store(true)
			defer p.run("first", clientgo.Beside(lock("first"), first), 1, true, synctest.Wait)()
			time.Sleep(5 * time.Second)
			stop := p.run("second", clientgo.Beside(lock("second"), shared.of("second")), 1, true, synctest.Wait)
			time.Sleep(2*leaseDuration + 3*soon)
			if is := p.who(); is != "second" {
				t.Fatalf("%q leads", is)
			}
			first.away.Store(false)
			time.Sleep(10 * time.Minute)
			if is := p.who(); is != "second" || len(p.told) != 1 {
				t.Errorf("%q leads, and there led %q", is, p.told)
			}
			stop()
			time.Sleep(soon)
			if is := p.who(); is != "first" {
				t.Errorf("%q leads, and the first can lead by now", is)
			}
		})
	})
	t.Run("it cannot write the lease", func(t *testing.T) {
		p(t, nil, func(p *leaders, lock func(name string) *clientgo.Lock) {
			shared := &lease{}
			first := &view{lease: shared, name: "first"}
			first.frozen.Store(true)
			defer p.run("first", clientgo.Beside(lock("first"), first), 1, true, synctest.Wait)()
			time.Sleep(5 * time.Second)
			defer p.run("second", clientgo.Beside(lock("second"), shared.of("second")), 1, true, synctest.Wait)()
			time.Sleep(2*leaseDuration + 3*soon)
			if is := p.who(); is != "second" {
				t.Errorf("%q leads", is)
			}
		})
	})
}

// Who waits for the lease of an old program that leads keeps its place, also if it cannot reach the lease now and then.
func TestWhoWaitsForTheLeaseOfAnotherKeepsItsPlace(t *testing.T) {
	plays(t, func(p *play) {
		shared := &lease{}
		stop := p.runs("old", shared.of("old"), true)
		p.isLed("old", soon)
		c, mine := p.client(), &view{lease: shared, name: "new"}
		defer p.runs("new", clientgo.Beside(p.lock(c, "new"), mine), true)()
		time.Sleep(soon)
		before, err := c.Line(p.Context(), "reports")
		if err != nil || len(before) != 1 {
			t.Fatal(before, err)
		}
		for range 20 {
			time.Sleep(time.Minute)
			mine.away.Store(true)
			time.Sleep(10 * time.Second)
			mine.away.Store(false)
		}
		if now, err := c.Line(p.Context(), "reports"); err != nil || len(now) != 1 || now[0].ID != before[0].ID {
			t.Errorf("it stood as %v, and stands as %v, %v", before, now, err)
		}
		stop()
		p.isLed("new", soon)
	})
}

// Whoever may stand for election may say anything of himself, and client-go writes it to the log of each candidate.
func TestALeadersNameIsShownSafelyAndNotAtLength(t *testing.T) {
	plays(t, func(p *play) {
		for name, want := range map[string]string{
			"node-7_5f1c":                  "node-7_5f1c",
			"x\x1b[2J\nE1 all is well":     `x\x1b[2J\nE1 all is well`,
			strings.Repeat("y", 60_000):    strings.Repeat("y", 300) + "…",
			strings.Repeat("\x00", 60_000): strings.Repeat(`\x00`, 300) + "…",
			"me":                           "somebody else",
		} {
			term, err := election.New(p.client(), "reports").Campaign(p.Context(), []byte(name))
			if err != nil {
				t.Fatal(err)
			}
			me := p.lock(p.client(), "me")
			_, _, _ = me.Get(p.Context())
			time.Sleep(soon)
			r, _, err := me.Get(p.Context())
			if err != nil || r.HolderIdentity != want {
				t.Errorf("%.40q is shown as %.40q, %d bytes, %v", name, r.HolderIdentity, len(r.HolderIdentity), err)
			}
			_ = me.Update(p.Context(), resourcelock.LeaderElectionRecord{}) // it stands no more
			_ = term.Release()
			synctest.Wait()
		}
	})
}

// lease is a resource of client-go's kind, in memory.
type lease struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
}

// of is a process's view of it.
func (l *lease) of(name string) resourcelock.Interface { return &view{lease: l, name: name} }

type view struct {
	*lease
	name string
	seen int

	away   atomic.Bool // it is not reached
	frozen atomic.Bool // it takes no writes
}

func (v *view) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.away.Load() {
		return nil, nil, errors.New("no route to host")
	}
	if v.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "reports")
	}
	v.seen = v.version
	r := *v.record
	raw, err := json.Marshal(r)
	return &r, raw, err
}

func (v *view) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.record != nil || v.away.Load() || v.frozen.Load() {
		return errors.New("it is not made")
	}
	v.record, v.version, v.seen = &r, 1, 1
	return nil
}

func (v *view) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen != v.version || v.away.Load() || v.frozen.Load() {
		return errors.New("it was changed, or may not be")
	}
	v.version++
	v.record, v.seen = &r, v.version
	return nil
}

func (v *view) RecordEvent(string) {}
func (v *view) Identity() string   { return v.name }
func (v *view) Describe() string   { return "a lease" }

// Old programs, those that change over and new ones are there at once, two and two; in each there is one leader at a time, and always one.
func TestProgramsChangeOverOneByOne(t *testing.T) {
	plays(t, func(p *play) {
		shared := &lease{}
		old := func(name string) func() { return p.runs(name, shared.of(name), true) }
		between := func(name string) func() {
			return p.runs(name, clientgo.Beside(p.lock(p.client(), name), shared.of(name)), true)
		}
		late := func(name string) func() { return p.runs(name, p.lock(p.client(), name), true) }
		running := []func(){old("old 1"), old("old 2")}
		for i, begin := range []func(string) func(){between, between, late, late, between, between, old, old} {
			p.leader(2 * leaseDuration)
			running = append(running, begin(fmt.Sprint("new ", i)))
			time.Sleep(20 * time.Second)
			running[0]()
			running = running[1:]
			time.Sleep(20 * time.Second)
		}
		p.leader(2 * leaseDuration)
		for _, stop := range running {
			stop()
		}
	})
}
