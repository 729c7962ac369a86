package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/mortal"
	"github.com/turnwise/turnwise/recipes/once"
)

// onceCutOff are the ways in which a process comes to its end in the middle of once.Job.Do, or nearly so.
var onceCutOff = []struct {
	name string
	way  cutOff
}{
	{"whose process dies before any request", diesBefore},
	{"whose process dies before any answer", diesUnanswered},
	{"whose process dies while any request is under way", diesUnderWay},
	{"whose process is cut off at any request, and comes back", comesBack},
}

func onceAtEveryPoint() (all []scenario) {
	for _, c := range onceCutOff {
		for policy, what := range map[once.Policy]string{once.AtMostOnce: "at most once", once.AtLeastOnce: "at least once"} {
			all = append(all, scenario{name: "a slot " + c.name + ", if " + what, run: func(s *scene) { slotEndsAnywhere(s, policy, c.way) }})
		}
	}
	return all
}

// cutOff is what happens to a process at one of its requests.
type cutOff int

const (
	diesBefore     cutOff = iota // the request is not sent
	diesUnanswered               // the service carries it out, and nobody hears the answer
	diesUnderWay                 // it is held up, and arrives when another one has taken over
	comesBack                    // the link is cut for longer than a session lasts, and the process goes on all the while
)

// fragile is the link of a process that is cut off at a moment. When it is dead, nothing that it asks for returns.
type fragile struct {
	*Link
	at  string
	way cutOff

	cut    chan struct{} // closed when the moment has come
	buried chan struct{} // closed when nobody cares any more: calls may return
	mu     sync.Mutex
	thaw   func()
}

// asked returns what do does, unless the process dies of it.
func (f *fragile) asked(at string, do func() error) error {
	switch {
	case at == f.at && f.way == comesBack:
		f.thaws(f.Cut())
		close(f.cut)
	case at == f.at:
		f.die(do)
	}
	if f.isDead() {
		return f.never()
	}
	err := do()
	if f.isDead() { // meanwhile
		return f.never()
	}
	return err
}

func (f *fragile) never() error {
	<-f.buried
	return ErrLinkLost
}

func (f *fragile) thaws(thaw func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thaw = thaw
}

func (f *fragile) die(do func() error) {
	thaw := func() {}
	if f.way != diesBefore {
		thaw = f.Freeze(map[cutOff]Direction{diesUnanswered: Replies, diesUnderWay: Requests}[f.way])
		returned := make(chan struct{})
		go func() { defer close(returned); _ = do() }()
		select { // it has been sent, and perhaps carried out: both are possible at a death
		case <-returned:
		case <-time.After(100 * time.Millisecond):
		}
	}
	f.thaws(thaw)
	switch {
	case f.Kill != nil && f.Strength().Death&driver.ByTTL == 0:
		f.Kill()
	case f.way != diesUnderWay:
		f.Cut()
	}
	close(f.cut)
}

func (f *fragile) isCut() bool {
	select {
	case <-f.cut:
		return true
	default:
		return false
	}
}

func (f *fragile) isDead() bool { return f.way != comesBack && f.isCut() }

// arrives lets through what was held up, or what is asked from now on.
func (f *fragile) arrives() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thaw()
}

// slotRuns are the tokens under which a slot was run, in order.
type slotRuns struct {
	mu     sync.Mutex
	tokens []coord.Token
}

func (r *slotRuns) add(h *coord.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = append(r.tokens, h.Token())
}

func (r *slotRuns) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tokens)
}

// slotEndsAnywhere has a process cut off at each moment of Do, a few at a time, each in a line of its own.
func slotEndsAnywhere(s *scene, policy once.Policy, way cutOff) {
	others := s.clients(1)[0]
	few := make(chan struct{}, 4)
	var all sync.WaitGroup
	for _, at := range mortal.MomentsOfSlot(policy) {
		l, line := s.connect(), s.anotherLine()
		if l.Cut == nil || l.Freeze == nil || l.Kill == nil && l.Strength().Death&driver.ByTTL == 0 {
			s.needs("end a process", true)
		}
		all.Go(func() {
			few <- struct{}{}
			defer func() { <-few }()
			d := doomed{s, at, line, policy, others, &fragile{
				Link: l, at: at, way: way, cut: make(chan struct{}), buried: make(chan struct{}),
			}, &slotRuns{}}
			if err := d.play(); err != nil {
				s.Errorf("%s: %v", d.name, err)
			}
		})
	}
	all.Wait()
}

// doomed is a process that is to run slot 7 of a line, and is cut off at a moment.
type doomed struct {
	s      *scene
	name   string
	line   string
	policy once.Policy
	others *coord.Client
	*fragile
	runs *slotRuns
}

// play has slot 6 run by another one, so that there is something to wait for, then slot 7 by the process, which is cut off, and what
// is left of it by another one again.
func (d *doomed) play() error {
	process := &mortal.Moments{Driver: d.Link, Asked: d.asked}
	c := coord.NewClient(process)
	defer c.Close()
	var bury sync.Once
	defer bury.Do(func() { close(d.buried) })
	other := once.New(d.others, d.line, d.policy)
	began, sixth, returned := make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
	go func() {
		_, err := d.patiently(other, 6, func(context.Context, *coord.Hold) error {
			began <- struct{}{}
			d.othersWait()
			return nil
		})
		sixth <- err
	}()
	if _, ok := arrives(d.s.patience, began); !ok {
		return errors.New("slot 6 is not run")
	}
	go func() {
		defer close(returned)
		_ = patient(d.s.ctx, func() error {
			_, err := once.New(c, d.line, d.policy).Do(d.s.ctx, 7, func(ctx context.Context, h *coord.Hold) error {
				if d.isDead() {
					return ErrLinkLost // it is a ghost
				}
				d.runs.add(h)
				return process.Ask("job", func() error { return d.job(ctx) })
			})
			if d.isCut() {
				return nil
			}
			return err
		})
	}()
	if _, ok := arrives(d.s.patience, d.cut); !ok {
		return errors.New("that moment does not come")
	}
	if err := <-sixth; err != nil {
		return err
	}
	before := d.runs.count()
	if d.way == comesBack && d.Strength().Death&driver.ByTTL == 0 {
		d.arrives() // otherwise it keeps its place for ever
	}
	ran, err := d.takeOver(other, 7)
	if err != nil {
		return err
	}
	if err := d.judge(before, ran); err != nil {
		return err
	}
	if ran, err = d.takeOver(other, 8); err != nil {
		return err
	} else if !ran {
		return errors.New("slot 8 is not run")
	}
	d.arrives()
	if d.way == comesBack {
		if _, ok := arrives(d.s.patience, returned); !ok {
			return errors.New("it came back, and Do does not return")
		}
	}
	return d.settled(other)
}

// othersWait waits until the process stands behind, or has been cut off before.
func (d *doomed) othersWait() {
	for d.s.ctx.Err() == nil && !d.isCut() {
		if nodes, err := d.others.Line(d.s.ctx, d.line); err == nil && len(nodes) == 2 {
			return
		}
		time.Sleep(tick)
	}
}

// job goes on for as long as it may if the process has been cut off.
func (d *doomed) job(ctx context.Context) error {
	if d.isCut() {
		_, _ = arrives(2*d.s.svc.TTL, ctx.Done())
	}
	return nil
}

// takeOver has another one run a slot as soon as it can.
func (d *doomed) takeOver(j *once.Job, slot int64) (ran bool, err error) {
	return d.patiently(j, slot, func(_ context.Context, h *coord.Hold) error {
		d.runs.add(h)
		return nil
	})
}

// patiently is Do, also on a busy machine.
func (d *doomed) patiently(j *once.Job, slot int64, fn func(context.Context, *coord.Hold) error) (ran bool, err error) {
	ctx, cancel := context.WithTimeout(d.s.ctx, 2*d.s.outlives())
	defer cancel()
	err = patient(ctx, func() (err error) {
		ran, err = j.Do(ctx, slot, fn)
		return err
	})
	if err != nil {
		return ran, fmt.Errorf("slot %d, by another one: %w", slot, err)
	}
	return ran, nil
}

// patient calls f again as long as a request takes too long, as it may on a busy machine, and ctx has not ended.
func patient(ctx context.Context, f func() error) error {
	for {
		if err := f(); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// judge says what is wrong with how often slot 7 was run: so often before the process was cut off, and by another one or not.
func (d *doomed) judge(before int, again bool) error {
	noted := "note 1" // from which on nobody runs it again
	wrong := func(want string) error {
		return fmt.Errorf("slot 7 was run %d times before, and again: %v; want %s", before, again, want)
	}
	total := d.runs.count()
	switch {
	case d.policy == once.AtMostOnce && total > 1:
		return wrong("once at most")
	case d.policy == once.AtLeastOnce && total == 0:
		return wrong("once at least")
	case d.way == comesBack || d.at == noted && d.way != diesBefore:
		return nil // it depends on who was faster
	}
	order := mortal.MomentsOfSlot(d.policy)
	settled := false
	for _, m := range order {
		if m == d.at {
			break
		}
		settled = settled || m == noted
	}
	if again == settled {
		return wrong(map[bool]string{true: "not again", false: "again"}[settled])
	}
	return nil
}

// settled checks what is left in the end, however late requests of the process arrived.
func (d *doomed) settled(other *once.Job) error {
	time.Sleep(2 * Late)
	d.runs.mu.Lock()
	tokens := d.runs.tokens
	d.runs.mu.Unlock()
	if d.policy == once.AtMostOnce && len(tokens) > 2 {
		return fmt.Errorf("slots 7 and 8 were run %d times", len(tokens))
	}
	for i, token := range tokens[1:] {
		if token <= tokens[i] {
			return fmt.Errorf("tokens do not rise: %d", tokens)
		}
	}
	last, err := other.Last(d.s.ctx)
	if err != nil || last != (once.Record{Slot: 8, Done: true, Token: tokens[len(tokens)-1]}) {
		return fmt.Errorf("slot 8 was run with token %d; noted is %+v, error %v", tokens[len(tokens)-1], last, err)
	}
	if ran, err := d.takeOver(other, 7); err != nil || ran {
		return fmt.Errorf("slot 7 is run after slot 8: %v, error %v", ran, err)
	}
	ctx, cancel := context.WithTimeout(d.s.ctx, d.s.patience)
	defer cancel()
	return patient(ctx, func() error { return d.others.Forget(ctx, d.line) })
}
