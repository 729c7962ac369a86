package storekit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

const pkg Package = "kit"

type config struct{ Settings }

func configured(ttl time.Duration) (c config, err error) {
	set := func(c *config) { c.TTL = ttl }
	err = Configure(pkg, ToConnect, &c, &c.Settings, []func(*config){nil, set, nil})
	return c, err
}

func TestSettings(t *testing.T) {
	if c, err := configured(time.Second); err != nil || c.TTL != time.Second || c.Log == nil {
		t.Errorf("%+v, %v", c, err)
	}
	for _, limit := range []time.Duration{register.MinTTL, maxTTL} {
		if c, err := configured(limit); err != nil || c.TTL != limit {
			t.Errorf("WithTTL(%v): %+v, %v", limit, c, err)
		}
	}
	var c config
	if err := Configure[config, func(*config)](pkg, ToConnect, &c, &c.Settings, nil); err != nil || c.TTL != register.DefaultTTL {
		t.Errorf("without options: %+v, %v", c, err)
	}
	// A TTL without its unit is one of nanoseconds.
	for _, slip := range []time.Duration{0, -time.Second, 30, register.MinTTL - 1, maxTTL + 1} {
		if _, err := configured(slip); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), "kit") {
			t.Errorf("WithTTL(%v): %v", slip, err)
		}
	}
}

func TestOpenTriesEachStepUntilItSucceeds(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	var took []string
	step := func(name string, failures int) func(context.Context) error {
		return func(context.Context) error {
			took = append(took, name)
			if failures--; failures >= 0 {
				return errors.New("not yet")
			}
			return nil
		}
	}
	if err := pkg.TakeSteps(t.Context(), "here", log, step("a", 2), step("b", 1)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "a", "a", "b", "b"}; !slices.Equal(took, want) {
		t.Errorf("it took %v, want %v", took, want)
	}
	if n := strings.Count(said.String(), "not yet"); n != 2 {
		t.Errorf("the same trouble of a step was said %d times for two steps:\n%s", n, &said)
	}
}

// The last try is cut short, so that its own error says nothing of what is wrong.
func TestOpenSaysWhatWasWrongBeforeTheTimeWasUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		tries := 0
		err := pkg.TakeSteps(ctx, "here", slog.New(slog.DiscardHandler), func(ctx context.Context) error {
			if tries++; tries == 1 {
				return errors.New("raise its limit")
			}
			<-ctx.Done()
			return errors.New("i/o timeout")
		})
		if err == nil || !strings.Contains(err.Error(), "i/o timeout; before that: raise its limit") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it says %v", err)
		}
	})
}

func TestOpenGivesAnErrorItsClass(t *testing.T) {
	fails := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for _, lasting := range []error{Denied("no such user"), fmt.Errorf("%w: no such host", coord.ErrInvalid)} {
		err := pkg.TakeSteps(t.Context(), "here", slog.New(slog.DiscardHandler), fails(lasting))
		if !errors.Is(err, lasting) || errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), "open here") {
			t.Errorf("%v became %v", lasting, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err := pkg.TakeSteps(ctx, "here", slog.New(slog.DiscardHandler), fails(errors.New("two\nlines\x1b[2J")))
	if !errors.Is(err, coord.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrDenied) {
		t.Errorf("out of reach: %v", err)
	}
	if !strings.Contains(err.Error(), `two lines\x1b[2J`) {
		t.Errorf("it is not safe to show: %q", err.Error())
	}
}

func TestAnErrorIsExplainedOnce(t *testing.T) {
	answer := errors.New("error 42")
	advise := func(err error) (string, error) {
		if errors.Is(err, answer) {
			return "grant it", driver.ErrDenied
		}
		return "", nil
	}
	first := Explain(answer, advise)
	again := Explain(fmt.Errorf("make the table: %w", first), advise)
	if !errors.Is(again, driver.ErrDenied) || !errors.Is(again, answer) || strings.Count(again.Error(), "grant it") != 1 {
		t.Errorf("explained twice: %v", again)
	}
	mayPass := Explain(answer, func(error) (string, error) { return "wait", nil })
	if twice := Explain(fmt.Errorf("look: %w", mayPass), advise); strings.Count(twice.Error(), "wait") != 1 || errors.Is(twice, driver.ErrDenied) {
		t.Errorf("explained once more, with a class: %v", twice)
	}
	if other := errors.New("other"); Explain(other, advise) != other || Explain(nil, advise) != nil {
		t.Error("what nobody can explain is changed")
	}
}

type stretch struct {
	id    string
	lasts time.Duration
}

func (s *stretch) ID() string         { return s.id }
func (s *stretch) For() time.Duration { return s.lasts }

// A server may say anything, and as much as it likes.
func TestAConflictIsAnAnswer(t *testing.T) {
	ctx := t.Context()
	if err := pkg.Failed(ctx, nil, "swap"); err != nil {
		t.Errorf("nothing has failed: %v", err)
	}
	if err := pkg.Failed(ctx, fmt.Errorf("the server: %w", register.ErrConflict), "swap"); err != register.ErrConflict {
		t.Errorf("somebody was faster: %v", err)
	}
	if err := pkg.Failed(ctx, register.ErrForgot, "swap %q", "a"); !errors.Is(err, register.ErrForgot) || !strings.HasPrefix(err.Error(), `kit: swap "a": `) {
		t.Errorf("the server has forgotten: %v", err)
	}
}

func TestAnErrorIsSafeToShow(t *testing.T) {
	said := OneLine(fmt.Errorf("one\n\ttwo\r\n\x1b[31mred \u202e%s", strings.Repeat("語", 1<<20)))
	text := said.Error()
	if begins := `one two \x1b[31mred \u202e語`; !strings.HasPrefix(text, begins) || !strings.HasSuffix(text, "語…") || len(text) > 5000 {
		t.Errorf("it is shown in %d bytes, as %.60q...", len(text), text)
	}
}

func TestAMemoryIsForgottenOnceAndThenRecalled(t *testing.T) {
	k := NewKnown[*stretch]()
	if _, err := k.Current(); !errors.Is(err, register.ErrForgot) {
		t.Errorf("before anything was recalled: %v", err)
	}
	recall := func(m *stretch) register.Memory {
		t.Helper()
		mem, err := k.Recall(t.Context(), func(*stretch) (*stretch, error) { return m, nil })
		if err != nil {
			t.Fatal(err)
		}
		return mem
	}
	first := &stretch{"one", register.Forever}
	if mem := recall(first); mem.ID != "one" || mem.For != register.Forever {
		t.Errorf("%+v", mem)
	}
	recall(&stretch{"one", register.Forever})
	if known, err := k.Current(); err != nil || known != first {
		t.Errorf("the same memory is another value: %v, %v", known, err)
	}
	if !k.Forget(first) || k.Forget(first) {
		t.Error("it is not news once")
	}
	if _, err := k.Current(); !errors.Is(err, register.ErrForgot) {
		t.Errorf("after it was forgotten: %v", err)
	}
	// Another memory may be old by the server's clock: those who have not noticed count from now.
	if mem := recall(&stretch{"two", time.Hour}); mem.For > time.Minute {
		t.Errorf("another memory counts as having lasted for %v", mem.For)
	}
	if k.Forget(first) {
		t.Error("a memory that is not gone by was forgotten")
	}
	if _, err := k.Recall(t.Context(), func(last *stretch) (*stretch, error) { return nil, fmt.Errorf("last %s", last.id) }); err == nil ||
		err.Error() != "last two" {
		t.Errorf("look hears of %v", err)
	}
	if known, err := k.Current(); err != nil || known.id != "two" {
		t.Errorf("a look that failed has changed what is known: %v, %v", known, err)
	}
}

// wire is a connection that nobody is at the end of.
type wire struct{ dead, broken, closed bool }

func (w *wire) Alive(context.Context) bool { return !w.dead }
func (w *wire) Usable() bool               { return !w.broken }
func (w *wire) HangUp()                    { w.closed = true }

func TestAPool(t *testing.T) {
	var all []*wire
	p := NewPool(2, func(context.Context) (*wire, error) {
		all = append(all, new(wire))
		return all[len(all)-1], nil
	})
	use := func(do func(w *wire) error) error { return p.Do(t.Context(), do) }
	both := func() {
		t.Helper()
		if err := use(func(*wire) error {
			return use(func(*wire) error {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				if err := p.Do(ctx, func(*wire) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a third is given out: %v", err)
				}
				return nil
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
	both()
	both()
	if len(all) != 2 {
		t.Fatalf("%d were dialled", len(all))
	}
	all[0].dead, all[1].dead = true, true
	both()
	if len(all) != 4 || !all[0].closed || !all[1].closed {
		t.Errorf("%d were dialled after the server had hung up on two", len(all))
	}
	_ = use(func(w *wire) error { w.broken = true; return errors.New("cut") })
	if !all[2].closed || !all[3].closed {
		t.Error("one was broken, and the idle one stayed")
	}
	_ = use(func(*wire) error { p.Close(); return nil })
	if last := all[len(all)-1]; !last.closed {
		t.Error("one that was in use is open after Close")
	}
	if err := use(func(*wire) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Who gives up leaves the connection to be made, and one that is stuck has others made beside it. In the end there are no more than there
// may be.
func TestConnectionsThatWereStuckAreNoMoreThanThePoolHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, callers = 2, 6
		var mu sync.Mutex
		var all []*wire
		goes := make(chan struct{})
		p := NewPool(size, func(context.Context) (*wire, error) {
			w := new(wire)
			mu.Lock()
			all = append(all, w)
			mu.Unlock()
			<-goes
			return w, nil
		})
		defer p.Close()
		for range callers {
			ctx, cancel := context.WithTimeout(t.Context(), 2*stuckAfter)
			err := p.Do(ctx, func(*wire) error { return nil })
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		close(goes)
		synctest.Wait()
		open := 0
		for _, w := range all {
			if !w.closed {
				open++
			}
		}
		if len(all) != callers || open != size {
			t.Errorf("%d of %d connections stay open, want %d", open, len(all), size)
		}
	})
}

func TestTheRenewalOfASessionWaitsForNothingElse(t *testing.T) {
	s := NewSlots(2)
	take := func(ctx context.Context) (free func(), err error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		free, _, err = s.Take(ctx)
		return free, err
	}
	other, renewal := t.Context(), register.ForRenewal(t.Context())
	for range 2 {
		if _, err := take(other); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := take(other); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third is let through: %v", err)
	}
	for range 2 {
		free, err := take(renewal)
		if err != nil {
			t.Fatalf("a renewal beside two others: %v", err)
		}
		if _, err := take(renewal); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second renewal beside that: %v", err)
		}
		free()
	}
}

// A caller who gives up breaks a connection, and the idle ones go with it. If nobody is given another, renewals go on.
func TestWhoGivesUpBreaksNoConnectionForRenewals(t *testing.T) {
	var all []*wire
	var full error
	silent := false
	p := NewPool(2, func(context.Context) (*wire, error) {
		if full != nil {
			return nil, full
		}
		all = append(all, &wire{dead: silent})
		return all[len(all)-1], nil
	})
	other, renewal := t.Context(), register.ForRenewal(t.Context())
	use := func(ctx context.Context, breaks error) (used *wire, err error) {
		err = p.Do(ctx, func(w *wire) error { used, w.broken = w, breaks != nil; return breaks })
		return used, err
	}
	first, _ := use(other, nil)
	silent = true
	for _, full = range []error{errors.New("no more"), nil} { // it may say so only when it is asked something
		if w, err := use(renewal, nil); err != nil || w != first {
			t.Errorf("nobody gets a connection, and the one that there is does not do for a renewal: %v", err)
		}
	}
	silent = false
	spare, _ := use(renewal, nil)
	if again, _ := use(renewal, nil); spare == first || again != spare {
		t.Errorf("renewals have no connection of their own")
	}
	full = errors.New("no more")
	gone := errors.New("the caller has gone")
	if w, err := use(other, gone); w != first || !errors.Is(err, gone) {
		t.Errorf("what others ask for is sent where sessions are renewed: %v", err)
	}
	if _, err := use(other, nil); !errors.Is(err, full) {
		t.Errorf("the next one: %v", err)
	}
	if w, err := use(renewal, nil); err != nil || w != spare {
		t.Errorf("a renewal: %v", err)
	}
	spare.dead, full = true, nil
	if w, err := use(renewal, nil); err != nil || w == spare || !spare.closed {
		t.Errorf("a renewal after the server has hung up: %v", err)
	}
	p.Drop()
	if last := all[len(all)-1]; !last.closed {
		t.Error("what concerns them all leaves that of renewals open")
	}
}

func TestAConnectionIsUsedOnlyIfItIsRecognized(t *testing.T) {
	ctx := t.Context()
	p := NewPool(1, func(context.Context) (*wire, error) { return new(wire), nil })
	k := NewKnown[*stretch]()
	var recognized, done int
	var leads error
	with := func() error {
		return With(ctx, p, k, func(_ context.Context, _ *wire, _ *stretch) error { recognized++; return leads }, func(_ *wire, m *stretch) error {
			done++
			if m.id != "one" {
				t.Errorf("it is done in the memory %q", m.id)
			}
			return nil
		})
	}
	if err := with(); !errors.Is(err, register.ErrForgot) || recognized+done > 0 {
		t.Errorf("no memory is known: %v, %d were looked at, %d times it was done", err, recognized, done)
	}
	if _, err := k.Recall(ctx, func(*stretch) (*stretch, error) { return &stretch{id: "one"}, nil }); err != nil {
		t.Fatal(err)
	}
	if err := with(); err != nil || recognized != 1 || done != 1 {
		t.Errorf("%v, %d were looked at, %d times it was done", err, recognized, done)
	}
	leads = register.ErrForgot
	if err := with(); !errors.Is(err, register.ErrForgot) || done != 1 {
		t.Errorf("the connection leads elsewhere: %v, %d times it was done", err, done)
	}
}

func TestWhatIsTriedAgain(t *testing.T) {
	inTheWay, hungUp, final := errors.New("in the way"), errors.New("hung up"), errors.New("final")
	undone := func(err error) bool { return err == inTheWay }
	cut := func(err error) bool { return err == hungUp }
	for _, c := range []struct {
		all          []error
		change, read error // what comes out
	}{
		{[]error{nil}, nil, nil},
		{[]error{inTheWay, inTheWay, nil}, nil, nil},
		{[]error{inTheWay, final}, final, final},
		{[]error{hungUp, hungUp, nil}, hungUp, nil},
		{[]error{hungUp, hungUp, hungUp, nil}, hungUp, hungUp},
		{slices.Repeat([]error{inTheWay}, 100), inTheWay, inTheWay},
	} {
		next := func() func() error {
			i := 0
			return func() error { i++; return c.all[i-1] }
		}
		if err := Change(next(), undone); err != c.change {
			t.Errorf("a change after %v: %v", c.all, err)
		}
		if err := Query(t.Context(), next(), undone, cut); err != c.read {
			t.Errorf("a query after %v: %v", c.all, err)
		}
	}
}

func TestPagesShowEachRegisterOnce(t *testing.T) {
	var all []string
	for i := range 25 {
		all = append(all, fmt.Sprintf("line/%02d", i))
	}
	keys := append(append([]string{"data/x"}, all...), "session/y")
	read := func(from, to []byte) (found []register.Item, err error) {
		for _, k := range keys {
			if k >= string(from) && k < string(to) && len(found) < 10 {
				found = append(found, register.Item{Key: k, Value: []byte{}})
			}
		}
		return found, nil
	}
	list := func(prefix string, most int) (got []string) {
		large := func(key string) (register.Item, error) {
			return register.Item{}, fmt.Errorf("%s is read by itself", key)
		}
		if err := Pages(prefix, 10, read, large, func(it register.Item) bool {
			got = append(got, it.Key)
			return len(got) < most
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := list("line/", 100); !slices.Equal(got, all) {
		t.Errorf("with a prefix: %q", got)
	}
	if got := list("", 100); !slices.Equal(got, keys) {
		t.Errorf("without: %q", got)
	}
	if got := list("line/", 12); len(got) != 12 {
		t.Errorf("it goes on after yield has said no: %q", got)
	}
}

func TestAVersionIsANumberAndBack(t *testing.T) {
	for range 100 {
		if v := register.NewVersion(); Version(Number(v)) != v {
			t.Errorf("%x became %x", v, Version(Number(v)))
		}
	}
}

func TestASwapThatChangedNothingIsJudgedByWhatStandsThere(t *testing.T) {
	w := &register.Swap{Key: "k", Old: register.NewVersion(), Next: register.NewVersion()}
	for name, c := range map[string]struct {
		stands   register.Version
		reserved bool
		want     error
		tries    int
	}{
		"an earlier try was applied":   {w.Next, false, nil, 1},
		"somebody was faster":          {register.NewVersion(), false, register.ErrConflict, 1},
		"it is reserved":               {w.Old, true, register.ErrConflict, 1},
		"nothing is in the way by now": {w.Old, false, errGoneAgain, maxTries},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			err := Change(func() error {
				tries++
				return Outcome(w, register.Item{Key: "k", Version: c.stands}, c.reserved)
			}, Never)
			if err != c.want || tries != c.tries {
				t.Errorf("after %d tries it returns %v; want %v after %d", tries, err, c.want, c.tries)
			}
		})
	}
}
