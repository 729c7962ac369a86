package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/verify/simulation/zookeeper"
)

// Fault is something that breaks after At parcels have arrived, just before the next one does.
type Fault struct {
	Kind *Kind
	At   int
}

func (f Fault) String() string { return f.Kind.name + "@" + strconv.Itoa(f.At) }

// Script is a run in which nothing is left to chance: it has the same few contenders each time, parcels that arrive in
// turn, and faults where it says. It uses no random numbers, so its meaning never changes.
type Script struct {
	Profile Profile
	Play    string
	Faults  []Fault
}

func (s Script) String() string {
	faults := make([]string, len(s.Faults))
	for i, f := range s.Faults {
		faults[i] = f.String()
	}
	return fmt.Sprintf("%v %s %s", s.Profile, s.Play, strings.Join(faults, ","))
}

// ParseScript parses what String returned.
func ParseScript(text string) (s Script, err error) {
	words := strings.Fields(text)
	if len(words) != 3 {
		return s, fmt.Errorf("sim: %q is no script: want profile, play and faults", text)
	}
	s.Play = words[1]
	known := false
	if s.Profile, known = profileOf(words[0]); !known || plays[s.Play] == nil {
		return s, fmt.Errorf("sim: %q is no script", text)
	}
	for _, w := range strings.Split(words[2], ",") {
		name, at, _ := strings.Cut(w, "@")
		kind := s.Profile.kindOf(name)
		n, err := strconv.Atoi(at)
		if err != nil || kind == nil {
			return s, fmt.Errorf("sim: %q is no fault", w)
		}
		s.Faults = append(s.Faults, Fault{kind, n})
	}
	return s, nil
}

// script is a run of a Script.
type script struct {
	*world
	faults  []Fault
	arrived int
	turn    int                  // whose parcel is next
	due     map[string]time.Time // when what is late will be applied
	quiet   time.Time            // since when nothing could arrive
	broken  time.Time            // until then, what is late is not applied
	cancels map[string]func()    // for each contender that asks
	denials map[string]bool      // clients that may be told that they are denied
	fulls   map[string]bool      // clients that may be told that there is no space
	noSpace bool                 // all may be told so
	rate    float64
	burst   string   // a link on which what is told next arrives at once
	steps   []parcel // those that have arrived
}

// Outcome is what came of a Script.
type Outcome struct {
	Report
	Steps []string // what arrived, in order
	met   int      // how many of the faults found something to break
}

const scriptTTL = 2 * time.Second

// RunScript runs a script in a bubble; it is called within synctest.Test.
func RunScript(sc Script, trace func(string)) Outcome {
	w := newWorld(Config{Profile: sc.Profile, Recipe: sc.Play, TTL: scriptTTL, Trace: trace})
	if len(sc.Faults) == 1 && sc.Faults[0].Kind.brief {
		w.nap = scriptTTL / 5
	}
	switch sc.Profile {
	case ZooKeeper:
		w.replicas = 3
		w.servers = zookeeper.Config{Members: 3, Tick: scriptTTL / 10, SyncLimit: 20}
	case Etcd:
		w.replicas = 3
	}
	s := &script{world: w, faults: sc.Faults, due: make(map[string]time.Time), cancels: make(map[string]func()), denials: make(map[string]bool), fulls: make(map[string]bool), rate: 1.06}
	for _, f := range sc.Faults {
		if f.Kind.slowClock {
			s.rate = 0.94
		}
	}
	w.start(s.rate)
	return s.run(plays[sc.Play])
}

func (s *script) run(parts []part) Outcome {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	for i := range parts {
		c := s.join(fmt.Sprintf("c%d", i))
		all.Go(func() { s.play(ctx, c, i, parts[i]) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	met := 0
	for !ended(done) && s.ok() {
		for len(s.faults) > 0 && s.faults[0].At <= s.arrived {
			if s.breakIt(s.faults[0].Kind) {
				met++
				s.note("FAULT " + s.faults[0].String())
			} else if _, some := s.next(); !some {
				break // it befalls what comes next
			}
			s.faults = s.faults[1:]
			synctest.Wait()
		}
		s.rejoin(false)
		s.move()
		synctest.Wait()
		s.world.steps++
		if len(s.faults) == 0 && s.healed.IsZero() && !time.Now().Before(s.broken) && s.scheduler.flows() {
			s.healed = time.Now()
		}
		err := s.judge()
		s.mu.Lock()
		if err != nil {
			s.report("%v", err)
		}
		if time.Since(s.began) > patience || s.world.steps > 50000 {
			s.report("somebody never comes through: %s", s.standings())
		}
		s.mu.Unlock()
	}
	s.finish(cancel, &all)
	o := Outcome{Report: s.reported(), met: met}
	for _, p := range s.steps {
		o.Steps = append(o.Steps, p.String())
	}
	return o
}

// lasts is the world's; until the fault ends, nobody is expected to be well.
func (s *script) lasts(d time.Duration, end func()) {
	s.world.lasts(d, end)
	s.broken = later(s.broken, time.Now().Add(d))
}

// next returns the parcel that will arrive next, if any may. The links take turns.
func (s *script) next() (parcel, bool) {
	ready := slices.DeleteFunc(s.scheduler.ready(), func(p parcel) bool {
		return time.Now().Before(s.due[p.String()])
	})
	if len(ready) == 0 {
		return parcel{}, false
	}
	return ready[s.turn%len(ready)], true
}

// move lets the next parcel arrive, a replica follow, or time pass.
func (s *script) move() {
	p, some := s.next()
	switch {
	case some:
		s.turn++
		s.arrived++
		s.steps = append(s.steps, p)
		s.note(p.String())
		s.scheduler.take(p)
		p.arrive()
		s.restOfBurst(p)
		s.quiet = time.Time{}
		time.Sleep(97 * time.Microsecond)
		return
	case s.quiet.IsZero():
		s.quiet = time.Now()
	}
	// A replica lags behind until nothing else moves.
	if lagging := s.lagging(); len(lagging) > 0 && time.Since(s.quiet) > time.Millisecond {
		s.service.CatchUp(lagging[0], 1)
		return
	}
	time.Sleep(min(10*time.Millisecond, max(200*time.Microsecond, time.Since(s.quiet)/2)))
}

// bunch has the next things that are told to a client arrive at once, after a while.
func (s *script) bunch(link string) {
	s.scheduler.freeze(link, toDriver, long/10)
	s.burst = link
}

// restOfBurst lets everything else that is told to the client arrive, without a rest in between.
func (s *script) restOfBurst(first parcel) {
	if first.link != s.burst || first.dir != toDriver {
		return
	}
	s.burst = ""
	for more := true; more; {
		more = false
		for _, p := range s.scheduler.ready() {
			if p.link == first.link && p.dir == toDriver && !more {
				s.steps = append(s.steps, p)
				s.note("at once: " + p.String())
				s.scheduler.take(p)
				p.arrive()
				more = true
			}
		}
	}
}

// part is what one contender does.
type part struct {
	after time.Duration
	acts  []act
}

type act struct {
	acquire func(ctx context.Context, c *client) (*coord.Hold, error) // nil: it does nothing while it would work
	try     bool
	works   time.Duration
	inside  func(ctx context.Context, c *client, h *coord.Hold) error // while it holds; may be nil
}

func (s *script) play(ctx context.Context, c *client, i int, p part) {
	name := c.name + "a"
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	var cancelled time.Time
	s.mu.Lock()
	s.cancels[c.name] = func() {
		s.mu.Lock()
		cancelled = time.Now()
		s.mu.Unlock()
		cancel()
	}
	s.mu.Unlock()
	time.Sleep(p.after + time.Duration(i))
	for _, a := range p.acts {
		s.act(asking, c, name, a)
		s.mu.Lock()
		gaveUp := cancelled
		s.mu.Unlock()
		if !gaveUp.IsZero() {
			s.inTime(name, "what it asked for", gaveUp.Add(a.works+c.driver.RequestTimeout()))
			return
		}
	}
}

// mayRefuse returns whether a client may be told what it is told: that it is denied, or that there is no space.
func (s *script) mayRefuse(c *client) func(error) bool {
	s.mu.Lock()
	denied, full := s.denials[c.name], s.fulls[c.name] || s.noSpace
	s.mu.Unlock()
	denied = denied || s.lacksRights()
	return func(err error) bool {
		return denied && errors.Is(err, coord.ErrDenied) || full && errors.Is(err, rpctypes.ErrNoSpace)
	}
}

func (s *script) act(ctx context.Context, c *client, name string, a act) {
	if a.acquire == nil {
		idle, cancel := context.WithTimeout(ctx, a.works)
		defer cancel()
		<-idle.Done()
		return
	}
	asked, heard := time.Now(), s.scheduler.heard(c.name)
	line := s.lines[0]
	h, err := a.acquire(ctx, c)
	refused := s.mayRefuse(c)
	switch {
	case err == nil:
	case refused(err):
		return
	case a.try && errors.Is(err, coord.ErrBusy):
		s.refused(c, name, line, asked, heard)
		return
	case ctx.Err() != nil, errors.Is(err, coord.ErrClosed), errors.Is(err, coord.ErrRemoved), a.try && errors.Is(err, coord.ErrUnavailable):
		return
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.report("%s: acquire failed with %v", name, err)
		return
	}
	mine := s.granted(name, line, h)
	rest(h, a.works)
	if a.inside != nil && h.Err() == nil {
		s.mu.Lock()
		mine.amended = true
		s.mu.Unlock()
		err := a.inside(ctx, c, h)
		denied := s.mayRefuse(c)(err)
		s.mu.Lock()
		if err != nil && h.Err() == nil && ctx.Err() == nil && !denied {
			s.report("%s: what it does while it holds fails: %v", name, err)
		}
		s.mu.Unlock()
		rest(h, a.works)
	}
	s.releases(c, name, h, mine)
}

// releases gives a hold back, twice.
func (s *script) releases(c *client, name string, h *coord.Hold, mine *claim) {
	held, began := h.Err() == nil, time.Now()
	s.released(mine)
	err := h.Release()
	s.mu.Lock()
	switch again := h.Release(); {
	case held && err != nil && time.Since(began) == 0 && s.taken[mine.place()].IsZero():
		s.report("%s: Release says %v of a hold that was held", name, err)
	case !held && err == nil:
		s.report("%s: Release says nothing of a hold that was lost", name)
	case (again == nil) != (err == nil):
		s.report("%s: Release says %v and then %v", name, err, again)
	}
	s.mu.Unlock()
	s.inTime(name, "release", began.Add(c.driver.RequestTimeout()))
}

// rest takes d, or until the hold has ended.
func rest(h *coord.Hold, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.Context().Done():
	}
}
