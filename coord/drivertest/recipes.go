package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

// RunRecipes plays the recipes on a driver. Beyond what a mutex needs, they use kinds, sight and amendments.
func RunRecipes(t *testing.T, start func(t testing.TB) *Service) {
	run(t, start, recipes)
}

var recipes = []obligation{
	{"mutex", []scenario{
		{name: "in the order of the line", run: mutexInOrder},
		{name: "a channel that nobody reads gives the lock back", run: mutexChanGivenUp},
		{name: "work that outlives its hold is told", run: mutexDoLost},
	}},
	{"rwlock", []scenario{
		{name: "readers together, a writer alone, in order", run: readersAndWriter},
		{name: "a downgrade lets readers in and no writer", run: downgrade},
		{name: "a writer that dies lets readers in", run: writerDies},
		{name: "many readers and writers", run: manyReadersAndWriters},
	}},
	{"semaphore", []scenario{
		{name: "one who asks for many is not passed", run: func(s *scene) { semaphoreInOrder(s, 1) }},
		{name: "nor when there are many permits", run: func(s *scene) { semaphoreInOrder(s, 10) }},
		{name: "the smallest number of permits rules", run: permitsChange},
		{name: "a holder that dies gives its permits back", run: func(s *scene) { permitHolderDies(s, 1) }},
		{name: "also when there are many permits", run: func(s *scene) { permitHolderDies(s, 10) }},
		{name: "many of every weight", run: func(s *scene) { manyWeights(s, 5) }},
		{name: "many of every weight, of many permits", run: func(s *scene) { manyWeights(s, 25) }},
		{name: "whoever of many holders leaves, the next one enters", run: manyHolders},
	}},
	{"asked to let go", []scenario{{name: "a holder is asked, and lets go", run: holderIsAsked}}},
	{"several locks", several},
	{"turns together", together},
	{"once in a slot", slices.Concat(onceInASlot, onceAtEveryPoint())},
	{"group", groups},
	{"barrier", barriers},
	{"election", []scenario{
		{name: "one leads, the next one follows", run: leadersFollow},
		{name: "an observer sees every leader and the vacant seat", run: observerSees},
		{name: "a proclamation is seen and nobody is let in", run: proclaims},
		{name: "a run goes on when its session is ended", run: runGoesOn},
		{name: "the best candidate leads, whoever came first", run: bestLeads},
	}},
}

// clients returns n clients, each with a link of its own.
func (s *scene) clients(n int) (cs []*coord.Client) {
	s.Helper()
	for range n {
		c, _ := s.client()
		cs = append(cs, c)
	}
	return cs
}

// taking runs take in the background.
func taking(take func() (*coord.Hold, error)) <-chan coord.Result {
	got := make(chan coord.Result, 1)
	go func() {
		h, err := take()
		got <- coord.Result{Hold: h, Err: err}
	}()
	return got
}

// waits fails if there already is a result.
func (s *scene) waits(got <-chan coord.Result, what string) {
	s.Helper()
	select {
	case r := <-got:
		s.Fatalf("%s: hold %v, error %v; want it to wait", what, r.Hold, r.Err)
	case <-time.After(50 * time.Millisecond):
	}
}

func (s *scene) must(h *coord.Hold, err error) *coord.Hold {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	return h
}

// tried returns what a try comes to. On a busy machine the service may not answer in time; then it is tried again.
func (s *scene) tried(try func() (*coord.Hold, error)) (h *coord.Hold, err error) {
	for limit := time.Now().Add(s.patience); ; {
		if h, err = try(); !errors.Is(err, coord.ErrUnavailable) || time.Now().After(limit) {
			return h, err
		}
	}
}

func mutexInOrder(s *scene) {
	cs := s.clients(3)
	var turns []<-chan coord.Result
	for i := range 9 {
		m := mutex.New(cs[i%3], s.line)
		turns = append(turns, taking(func() (*coord.Hold, error) { return m.Lock(s.ctx) }))
		s.queued(i + 1)
	}
	var last coord.Token
	for i, got := range turns {
		h := s.granted(soon, got, fmt.Sprintf("number %d", i))
		if i > 0 && h.Token() <= last {
			s.Errorf("token %d comes after %d", h.Token(), last)
		}
		last = h.Token()
		if i+1 < len(turns) && len(turns[i+1]) > 0 {
			s.Errorf("number %d has its turn while %d holds", i+1, i)
		}
		s.release(h)
	}
	s.gone(s.line)
}

func mutexChanGivenUp(s *scene) {
	cs := s.clients(2)
	h := s.must(mutex.New(cs[0], s.line).Lock(s.ctx))
	ctx, cancel := context.WithCancel(s.ctx)
	result := mutex.New(cs[1], s.line).LockChan(ctx)
	s.queued(2)
	s.release(h)
	time.Sleep(50 * time.Millisecond) // it has been granted, but nobody has received it
	cancel()
	s.gone(s.line)
	if r, ok := <-result; !ok || r.Hold != nil || r.Err == nil {
		s.Errorf("the channel delivers %+v, want an error", r)
	}
}

func mutexDoLost(s *scene) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	fine := errors.New("what fn returns")
	err := mutex.New(c, s.line).Do(s.ctx, func(ctx context.Context, h *coord.Hold) error {
		l.Expire(s, w.last())
		<-ctx.Done()
		return fine
	})
	if !errors.Is(err, fine) || !errors.Is(err, coord.ErrLost) {
		s.Errorf("Do: %v, want what fn returned and ErrLost", err)
	}
}

func readersAndWriter(s *scene) {
	cs := s.clients(3)
	a, b, c := rwlock.New(cs[0], s.line), rwlock.New(cs[1], s.line), rwlock.New(cs[2], s.line)
	first := s.must(a.RLock(s.ctx))
	second := s.must(b.RLock(s.ctx))
	if _, err := s.tried(func() (*coord.Hold, error) { return c.TryLock(s.ctx) }); !errors.Is(err, coord.ErrBusy) {
		s.Errorf("a writer tries beside readers: %v, want ErrBusy", err)
	}
	s.release(s.must(s.tried(func() (*coord.Hold, error) { return c.TryRLock(s.ctx) })))
	writer := taking(func() (*coord.Hold, error) { return c.Lock(s.ctx) })
	s.queued(3)
	behind := taking(func() (*coord.Hold, error) { return a.RLock(s.ctx) })
	also := taking(func() (*coord.Hold, error) { return b.RLock(s.ctx) })
	s.queued(5)
	s.waits(behind, "a reader behind a writer")
	s.release(second)
	s.waits(writer, "a writer behind a reader")
	s.release(first)
	w := s.granted(soon, writer, "all readers have gone")
	s.waits(also, "a reader while a writer writes")
	s.release(w)
	s.release(s.granted(soon, also, "the writer has gone"))
	s.release(s.granted(soon, behind, "the writer has gone"))
	s.gone(s.line)
}

func downgrade(s *scene) {
	cs := s.clients(3)
	mine := rwlock.New(cs[0], s.line)
	h := s.must(mine.Lock(s.ctx))
	token := h.Token()
	reader := taking(func() (*coord.Hold, error) { return rwlock.New(cs[1], s.line).RLock(s.ctx) })
	s.queued(2)
	writer := taking(func() (*coord.Hold, error) { return rwlock.New(cs[2], s.line).Lock(s.ctx) })
	s.queued(3)
	if err := mine.Downgrade(s.ctx, h); err != nil {
		s.Fatalf("Downgrade: %v", err)
	}
	if h.Token() != token || h.Err() != nil {
		s.Errorf("after the downgrade the hold has the token %d and says %v; it had %d", h.Token(), h.Err(), token)
	}
	r := s.granted(soon, reader, "the writer ahead reads now")
	s.waits(writer, "a writer behind two readers")
	s.release(h)
	s.waits(writer, "a writer behind a reader")
	s.release(r)
	s.release(s.granted(soon, writer, "the readers have gone"))
	s.gone(s.line)
}

func writerDies(s *scene) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	cs := s.clients(2)
	h := s.must(rwlock.New(c, s.line).Lock(s.ctx))
	var readers []<-chan coord.Result
	for i := range 6 {
		lock := rwlock.New(cs[i%2], s.line)
		readers = append(readers, taking(func() (*coord.Hold, error) { return lock.RLock(s.ctx) }))
	}
	s.queued(7)
	l.Expire(s, w.last())
	for i, got := range readers {
		s.granted(soon, got, fmt.Sprintf("reader %d", i))
	}
	s.lost(s.outlives(), h)
}

func manyReadersAndWriters(s *scene) {
	cs := s.clients(3)
	var reading, writing atomic.Int64
	var all sync.WaitGroup
	for i := range 15 {
		lock := rwlock.New(cs[i%3], s.line)
		all.Go(func() {
			for range 4 {
				var err error
				if rand.N(3) == 0 {
					err = lock.Do(s.ctx, func(ctx context.Context, h *coord.Hold) error {
						if w, r := writing.Add(1), reading.Load(); w != 1 || r != 0 {
							s.Errorf("%d write and %d read at once", w, r)
						}
						time.Sleep(rand.N(2 * time.Millisecond))
						if rand.N(2) == 0 { // downgrade, and read on
							reading.Add(1)
							writing.Add(-1)
							defer reading.Add(-1)
							return lock.Downgrade(ctx, h)
						}
						writing.Add(-1)
						return nil
					})
				} else {
					err = lock.RDo(s.ctx, func(context.Context, *coord.Hold) error {
						reading.Add(1)
						defer reading.Add(-1)
						if w := writing.Load(); w != 0 {
							s.Errorf("%d write while one reads", w)
						}
						time.Sleep(rand.N(2 * time.Millisecond))
						return nil
					})
				}
				if err != nil {
					s.Errorf("Do: %v", err)
				}
			}
		})
	}
	all.Wait()
	s.gone(s.line)
}

// semaphoreInOrder plays with 3*each permits, which are taken in multiples of each.
func semaphoreInOrder(s *scene, each int64) {
	cs := s.clients(2)
	a, b := semaphore.New(cs[0], s.line, 3*each), semaphore.New(cs[1], s.line, 3*each)
	one := s.must(a.Acquire(s.ctx, each))
	two := s.must(b.Acquire(s.ctx, each))
	many := taking(func() (*coord.Hold, error) { return a.Acquire(s.ctx, 3*each) })
	s.queued(3)
	few := taking(func() (*coord.Hold, error) { return b.Acquire(s.ctx, each) })
	s.queued(4)
	s.waits(few, "one permit is free, and somebody is ahead")
	if _, err := s.tried(func() (*coord.Hold, error) { return b.TryAcquire(s.ctx, 1) }); !errors.Is(err, coord.ErrBusy) {
		s.Errorf("a try while somebody waits: %v, want ErrBusy", err)
	}
	s.release(two)
	s.waits(many, "two of three are free")
	s.release(one)
	h := s.granted(soon, many, "all are free")
	s.waits(few, "none is free")
	s.release(h)
	s.release(s.granted(soon, few, "all are free"))
	h = s.must(s.tried(func() (*coord.Hold, error) { return b.TryAcquire(s.ctx, 3*each) }))
	s.release(h)
	s.gone(s.line)
}

func permitsChange(s *scene) {
	cs := s.clients(2)
	old, young := semaphore.New(cs[0], s.line, 3), semaphore.New(cs[1], s.line, 1)
	h := s.must(old.Acquire(s.ctx, 1))
	strict := taking(func() (*coord.Hold, error) { return young.Acquire(s.ctx, 1) })
	s.queued(2)
	s.waits(strict, "one of one is taken")
	loose := taking(func() (*coord.Hold, error) { return old.Acquire(s.ctx, 1) })
	s.queued(3)
	s.waits(loose, "somebody in line knows of one permit only")
	s.release(h)
	h = s.granted(soon, strict, "its only permit is free")
	s.waits(loose, "the only permit is taken")
	s.release(h)
	s.release(s.granted(soon, loose, "all are free"))
}

func permitHolderDies(s *scene, each int64) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	cs := s.clients(2)
	for range 2 {
		s.must(semaphore.New(c, s.line, 4*each).Acquire(s.ctx, 2*each))
	}
	var waiting []<-chan coord.Result
	for i := range 4 {
		sem := semaphore.New(cs[i%2], s.line, 4*each)
		waiting = append(waiting, taking(func() (*coord.Hold, error) { return sem.Acquire(s.ctx, each) }))
		s.queued(3 + i)
	}
	s.waits(waiting[0], "all are taken")
	l.Expire(s, w.last())
	for i, got := range waiting {
		s.granted(soon, got, fmt.Sprintf("number %d", i))
	}
}

func manyWeights(s *scene, permits int64) {
	cs := s.clients(3)
	var taken atomic.Int64
	var all sync.WaitGroup
	for i := range 15 {
		sem := semaphore.New(cs[i%3], s.line, permits)
		all.Go(func() {
			for range 4 {
				n := 1 + rand.Int64N(permits)
				if err := sem.Do(s.ctx, n, func(context.Context, *coord.Hold) error {
					if sum := taken.Add(n); sum > permits {
						s.Errorf("%d of %d are taken", sum, permits)
					}
					time.Sleep(rand.N(2 * time.Millisecond))
					taken.Add(-n)
					return nil
				}); err != nil {
					s.Errorf("Do: %v", err)
				}
			}
		})
	}
	all.Wait()
	s.gone(s.line)
}

// manyHolders has holders leave in any order, some by dying. The waiters enter in the order of the line.
func manyHolders(s *scene) {
	const permits = 20
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	cs := append(s.clients(2), c)
	var holds []*coord.Hold
	for i := range permits - 2 {
		holds = append(holds, s.must(semaphore.New(cs[i%2], s.line, permits).Acquire(s.ctx, 1)))
	}
	for range 2 {
		s.must(semaphore.New(c, s.line, permits).Acquire(s.ctx, 1))
	}
	var waiting []<-chan coord.Result
	for i := range 12 {
		sem := semaphore.New(cs[i%2], s.line, permits)
		waiting = append(waiting, taking(func() (*coord.Hold, error) { return sem.Acquire(s.ctx, 1) }))
		s.queued(permits + i + 1)
	}
	s.waits(waiting[0], "all are taken")
	for i := range 10 {
		leaves := rand.IntN(len(holds))
		s.release(holds[leaves])
		holds[leaves] = s.granted(soon, waiting[i], fmt.Sprintf("number %d", i))
		s.waits(waiting[i+1], "one left and one came")
	}
	l.Expire(s, w.last())
	for i := 10; i < 12; i++ {
		holds = append(holds, s.granted(soon, waiting[i], fmt.Sprintf("number %d", i)))
	}
	for _, h := range holds {
		s.release(h)
	}
	s.gone(s.line)
}

// campaigning campaigns in the background.
func (s *scene) campaigning(c *coord.Client, value string) <-chan coord.Result {
	e := election.New(c, s.line)
	return taking(func() (*coord.Hold, error) {
		t, err := e.Campaign(s.ctx, []byte(value))
		if err != nil {
			return nil, err
		}
		return t.Hold, nil
	})
}

func leadersFollow(s *scene) {
	cs := s.clients(3)
	watcher := election.New(cs[0], s.line)
	if n, err := watcher.Leader(s.ctx); !errors.Is(err, election.ErrNoLeader) {
		s.Errorf("Leader: %v, error %v; want ErrNoLeader", brief(n), err)
	}
	var terms []<-chan coord.Result
	for i, c := range cs {
		terms = append(terms, s.campaigning(c, fmt.Sprintf("value %d", i)))
		s.queued(i + 1)
	}
	candidates, err := watcher.Candidates(s.ctx)
	if err != nil || len(candidates) != 3 {
		s.Fatalf("Candidates: %v, error %v", brief(candidates...), err)
	}
	for i, got := range terms {
		t := s.granted(soon, got, fmt.Sprintf("candidate %d", i))
		n, err := watcher.Leader(s.ctx)
		if err != nil || string(n.Data) != fmt.Sprintf("value %d", i) || n.Token != t.Token() || string(candidates[i].Data) != string(n.Data) {
			s.Errorf("Leader: %+v, error %v; want candidate %d", n, err, i)
		}
		s.release(t)
	}
	s.gone(s.line)
}

// observe passes on what an observer is told: values, and when the seat is vacant.
func (s *scene) observe(c *coord.Client) <-chan string {
	told := make(chan string, 100)
	ctx, cancel := context.WithCancel(s.ctx)
	over := make(chan struct{})
	s.Cleanup(func() {
		cancel()
		<-over
	})
	e := election.New(c, s.line)
	go func() {
		defer close(over)
		for n, err := range e.Observe(ctx) {
			switch {
			case errors.Is(err, election.ErrNoLeader):
				told <- "vacant"
			case err == nil:
				told <- string(n.Data)
			}
		}
	}()
	return told
}

func (s *scene) sees(told <-chan string, want string) {
	s.Helper()
	for limit := time.After(s.patience); ; { // how soon is another obligation: 17
		select {
		case got := <-told:
			if got == want {
				return
			}
		case <-limit:
			s.Fatalf("the observer is not told of %q", want)
		}
	}
}

func observerSees(s *scene) {
	cs := s.clients(3)
	told := s.observe(cs[2])
	s.sees(told, "vacant")
	first := s.granted(s.patience, s.campaigning(cs[0], "first"), "nobody leads")
	s.sees(told, "first")
	second := s.campaigning(cs[1], "second")
	s.queued(2)
	s.release(first)
	s.sees(told, "second")
	s.release(s.granted(soon, second, "the first has resigned"))
	s.sees(told, "vacant")
}

func proclaims(s *scene) {
	cs := s.clients(3)
	told := s.observe(cs[2])
	t, err := election.New(cs[0], s.line).Campaign(s.ctx, []byte("as it stood"))
	if err != nil {
		s.Fatalf("Campaign: %v", err)
	}
	next := s.campaigning(cs[1], "next")
	s.queued(2)
	for _, value := range [][]byte{[]byte("proclaimed"), bytes.Repeat([]byte("x"), coord.MaxData), {}} {
		if err := t.Proclaim(s.ctx, value); err != nil {
			s.Fatalf("Proclaim: %v", err)
		}
		s.sees(told, string(value))
		s.waits(next, "the leader proclaims something")
	}
	s.release(t.Hold)
	s.release(s.granted(soon, next, "the leader has resigned"))
}

func runGoesOn(s *scene) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var running atomic.Int64
	terms := make(chan coord.Token, 10)
	over := make(chan error, 1)
	go func() {
		over <- election.New(c, s.line).Run(ctx, []byte("a value"), func(ctx context.Context, t *election.Term) error {
			if n := running.Add(1); n != 1 {
				s.Errorf("%d run at once", n)
			}
			defer running.Add(-1)
			terms <- t.Token()
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) // it takes a moment to stop
			return ctx.Err()
		})
	}()
	var last coord.Token
	for range 3 {
		select {
		case token := <-terms:
			if last != 0 && token <= last {
				s.Errorf("token %d comes after %d", token, last)
			}
			last = token
		case <-time.After(s.outlives()):
			s.Fatal("it does not lead again")
		}
		l.Expire(s, w.last())
	}
	<-terms
	cancel()
	select {
	case err := <-over:
		if err != nil {
			s.Errorf("Run: %v, want nil when ctx has ended", err)
		}
	case <-time.After(s.patience):
		s.Error("Run does not return")
	}
	s.gone(s.line)
}
