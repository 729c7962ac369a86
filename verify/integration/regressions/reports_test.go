package regressions

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

var reports = []report{
	{"go-zookeeper #12, samuel #229", "a lock whose reply is lost stands in everybody's way", lostReply},
	{"CURATOR-45, CURATOR-79", "an acquire that is given up leaves its node", givenUp},
	{"CURATOR-205", "an acquire that is given up leaves its node when its clean-up is disturbed, too", cleanUpDisturbed},
	{"CURATOR-462", "a semaphore's acquire that is given up leaves its node", semaphoreGivenUp},
	{"etcd #11456, CURATOR-604", "a lock is returned after the session that waited for it has ended", sessionEndsInWait},
	{"etcd #19597", "a waiter whose session has ended hears of it when the holder leaves, and no sooner", sessionEndsUnnoticed},
	{"etcd #11051", "a campaign is won after its session has ended", campaignOutlivesSession},
	{"etcd #16221", "a writer's lock is returned after its session has ended", writerOutlivesSession},
	{"etcd #22082", "a release that is retried removes a newer lock", releaseRetried},
	{"etcd #18082", "a call with a deadline hangs while the servers are away", deadlineWhileAway},
	{"CURATOR-621, kazoo #649", "a writer overtakes a downgraded reader, or all wait for each other", downgradedReader},
	{"kazoo #213", "two who try have one permit", tryingForPermits},
	{"CURATOR-376", "a lock is returned that cannot be released", releasedByMany},
	{"kazoo #170", "nobody goes on after a lost connection", connectionComesAndGoes},
	{"CURATOR-644", "a candidate loses its node, or makes a second, as it reconnects", candidateReconnects},
	{"CURATOR-724", "a candidate does not recover when the service comes back without its data", comesBackEmpty},
	{"kazoo #732", "a try that fails while the connection is bad leaves its node", tryDisturbed},
	{"consul #18271", "a holder does not notice for minutes that it is cut off", cutOffUnnoticed},
	{"consul #4902", "a lock that was lost cannot be taken again", takenAgain},
}

func lostReply(s *stage) {
	cut := s.loseReplies()
	got := taking(func() (*coord.Hold, error) { return mutex.New(s.victim, line).Lock(s.ctx) })
	made := s.stand(1)
	cut()
	h := s.granted(got)
	if h.Node().ID != made[0].ID {
		s.Errorf("it holds by %s, and %s was made first", h.Node().ID, made[0].ID)
	}
	s.stand(1)
	if err := h.Release(); err != nil {
		s.Error(err)
	}
	s.must(mutex.New(s.other, line).Lock(s.ctx)).Release()
	s.stand(0)
}

// giveUp cancels an acquire whose reply does not come, and checks that the call ends in time.
func (s *stage) giveUp(take func(ctx context.Context) (*coord.Hold, error)) {
	ctx, cancel := context.WithCancel(s.ctx)
	got := taking(func() (*coord.Hold, error) { return take(ctx) })
	s.stand(1)
	cancel()
	began := time.Now()
	r := <-got
	if r.Hold != nil || !errors.Is(r.Err, context.Canceled) {
		s.Errorf("a cancelled acquire: %v, %v", r.Hold, r.Err)
	}
	if took := time.Since(began); took > 100*time.Millisecond+slack {
		s.Errorf("it came back %v after its context had ended", took)
	}
}

func givenUp(s *stage) {
	cut := s.loseReplies()
	s.giveUp(mutex.New(s.victim, line).Lock)
	cut()
	s.stand(0)
	s.must(mutex.New(s.other, line).TryLock(s.ctx)).Release()
}

func cleanUpDisturbed(s *stage) {
	cut := s.loseReplies()
	s.giveUp(mutex.New(s.victim, line).Lock)
	for range 5 {
		cut()
		time.Sleep(10 * time.Millisecond)
		cut = s.loseReplies()
		time.Sleep(30 * time.Millisecond)
	}
	cut()
	s.stand(0)
	s.must(mutex.New(s.other, line).TryLock(s.ctx)).Release()
}

func semaphoreGivenUp(s *stage) {
	cut := s.loseReplies()
	s.giveUp(func(ctx context.Context) (*coord.Hold, error) {
		return semaphore.New(s.victim, line, 3).Acquire(ctx, 2)
	})
	cut()
	s.stand(0)
	s.must(semaphore.New(s.other, line, 3).TryAcquire(s.ctx, 3)).Release()
}

// outlives makes the victim wait behind somebody while its session is ended. What it gets in the end must stand.
func (s *stage) outlives(take func() (*coord.Hold, error)) {
	first := s.must(mutex.New(s.other, line).Lock(s.ctx))
	got := taking(take)
	before := s.stand(2)[1]
	s.endSession(1)
	s.waits(got)
	if err := first.Release(); err != nil {
		s.Error(err)
	}
	h := s.granted(got)
	if err := h.Err(); err != nil {
		s.Errorf("it is lost when it is returned: %v", err)
	}
	now := s.stand(1)[0]
	if now.ID != h.Node().ID || now.ID == before.ID {
		s.Errorf("it holds by %s; in line is %s, and before it was %s", h.Node().ID, now.ID, before.ID)
	}
	if err := h.Release(); err != nil {
		s.Error(err)
	}
}

func sessionEndsInWait(s *stage) {
	s.outlives(func() (*coord.Hold, error) { return mutex.New(s.victim, line).Lock(s.ctx) })
}

func sessionEndsUnnoticed(s *stage) {
	first := s.must(mutex.New(s.other, line).Lock(s.ctx))
	got := taking(func() (*coord.Hold, error) { return mutex.New(s.victim, line).Lock(s.ctx) })
	before := s.stand(2)[1]
	s.endSession(1)
	if now := s.stand(2)[1]; now.ID == before.ID || now.Token <= before.Token {
		s.Errorf("it stands as %v, and stood as %v", now, before)
	}
	s.waits(got)
	if err := first.Err(); err != nil {
		s.Errorf("the holder was disturbed: %v", err)
	}
	first.Release()
	s.granted(got).Release()
}

func campaignOutlivesSession(s *stage) {
	s.outlives(func() (*coord.Hold, error) { return s.campaign(s.victim) })
}

func writerOutlivesSession(s *stage) {
	s.outlives(func() (*coord.Hold, error) { return rwlock.New(s.victim, line).Lock(s.ctx) })
}

func releaseRetried(s *stage) {
	m := mutex.New(s.victim, line)
	h := s.must(m.Lock(s.ctx))
	cut := s.loseReplies()
	released := make(chan error, 1)
	go func() { released <- h.Release() }()
	s.stand(0)
	cut()
	newer := s.must(m.Lock(s.ctx))
	<-released
	h.Release()
	time.Sleep(ttl / 2) // for whatever is still on its way
	if err := newer.Err(); err != nil {
		s.Errorf("the newer lock: %v", err)
	}
	if now := s.stand(1)[0]; now.ID != newer.Node().ID {
		s.Errorf("in line is %s, want %s", now.ID, newer.Node().ID)
	}
	newer.Release()
}

func deadlineWhileAway(s *stage) {
	h := s.must(mutex.New(s.victim, "another").Lock(s.ctx))
	s.cluster.Member(0).Freeze()
	defer s.cluster.Member(0).Thaw()
	calls := map[string]func(ctx context.Context) error{
		"Lock":     func(ctx context.Context) error { _, err := mutex.New(s.victim, line).Lock(ctx); return err },
		"TryLock":  func(ctx context.Context) error { _, err := mutex.New(s.victim, line).TryLock(ctx); return err },
		"Campaign": func(ctx context.Context) error { _, err := election.New(s.victim, line).Campaign(ctx, nil); return err },
		"Leader":   func(ctx context.Context) error { _, err := election.New(s.victim, line).Leader(ctx); return err },
		"Line":     func(ctx context.Context) error { _, err := s.victim.Line(ctx, line); return err },
		"Lines":    func(ctx context.Context) error { _, err := s.victim.Lines(ctx, ""); return err },
		"Break":    func(ctx context.Context) error { return s.victim.Break(ctx, h.Node()) },
	}
	var all sync.WaitGroup
	for name, call := range calls {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, 300*time.Millisecond)
			defer cancel()
			err := call(ctx)
			deadline, _ := ctx.Deadline()
			if late := time.Since(deadline); late > 100*time.Millisecond+slack {
				s.Errorf("%s came back %v after its deadline", name, late)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				s.Errorf("%s: %v, want the deadline", name, err)
			}
		})
	}
	all.Wait()
}

func downgradedReader(s *stage) {
	v, o := rwlock.New(s.victim, line), rwlock.New(s.other, line)
	writer := s.must(v.Lock(s.ctx))
	reader := taking(func() (*coord.Hold, error) { return o.RLock(s.ctx) })
	s.stand(2)
	second := taking(func() (*coord.Hold, error) { return o.Lock(s.ctx) })
	s.stand(3)
	if err := v.Downgrade(s.ctx, writer); err != nil {
		s.Fatal(err)
	}
	beside := s.granted(reader)
	s.waits(second)
	writer.Release()
	s.waits(second)
	beside.Release()
	s.granted(second).Release()
}

func tryingForPermits(s *stage) {
	var out atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		c := s.other
		if i%2 == 0 {
			c = s.victim
		}
		sem := semaphore.New(c, line, 2)
		all.Go(func() {
			for until := time.Now().Add(time.Second); time.Now().Before(until); {
				h, err := sem.TryAcquire(s.ctx, 1)
				if errors.Is(err, coord.ErrBusy) {
					continue
				}
				if err != nil {
					s.Error(err)
					return
				}
				if n := out.Add(1); n > 2 {
					s.Errorf("%d of 2 permits are out", n)
				}
				time.Sleep(time.Millisecond)
				out.Add(-1)
				h.Release()
			}
		})
	}
	all.Wait()
	s.stand(0)
}

func releasedByMany(s *stage) {
	m := mutex.New(s.victim, line) // one value, used by all
	var inside atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				h, err := m.Lock(s.ctx)
				if err != nil {
					s.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					s.Error("two are inside")
				}
				inside.Add(-1)
				var releases sync.WaitGroup
				for range 3 {
					releases.Go(func() {
						if err := h.Release(); err != nil {
							s.Errorf("release: %v", err)
						}
					})
				}
				releases.Wait()
			}
		})
	}
	all.Wait()
	s.stand(0)
}

func connectionComesAndGoes(s *stage) {
	begun := time.Now()
	var turns [2]atomic.Int64
	goesOn := func() bool { // on a busy machine a turn takes most of the time between two cuts
		few := turns[0].Load() < 10 || turns[1].Load() < 10
		return time.Since(begun) < 3*time.Second || few && time.Since(begun) < 40*time.Second
	}
	var all sync.WaitGroup
	for i, c := range []*coord.Client{s.victim, s.other} {
		all.Go(func() {
			for goesOn() {
				h, err := mutex.New(c, line).Lock(s.ctx)
				if err != nil {
					s.Errorf("lock: %v", err)
					return
				}
				turns[i].Add(1)
				time.Sleep(time.Millisecond)
				h.Release()
			}
		})
	}
	for goesOn() {
		time.Sleep(200 * time.Millisecond)
		s.link.Cut()
	}
	all.Wait()
	if turns[0].Load() < 10 || turns[1].Load() < 10 {
		s.Errorf("%d and %d turns", turns[0].Load(), turns[1].Load())
	}
	s.stand(0)
}

func candidateReconnects(s *stage) {
	leads := s.must(mutex.New(s.other, line).Lock(s.ctx))
	got := taking(func() (*coord.Hold, error) { return s.campaign(s.victim) })
	mine := s.stand(2)[1]
	for range 10 {
		s.link.Cut()
		time.Sleep(50 * time.Millisecond)
		if now := s.stand(2)[1]; now.ID != mine.ID {
			s.Fatalf("its node was %s, and now is %s", mine.ID, now.ID)
		}
	}
	leads.Release()
	if h := s.granted(got); h.Node().ID != mine.ID {
		s.Errorf("it leads by %s, want %s", h.Node().ID, mine.ID)
	} else {
		h.Release()
	}
	s.stand(0)
}

func comesBackEmpty(s *stage) {
	lead := func(c *coord.Client) <-chan coord.Result {
		return taking(func() (*coord.Hold, error) { return s.campaign(c) })
	}
	leads := s.granted(lead(s.victim))
	candidate := lead(s.other)
	s.stand(2)
	s.loseData()
	select {
	case <-leads.Context().Done():
		leads.Release()
	case <-time.After(5 * ttl):
		s.Error("the leader is not told")
	}
	next := s.granted(candidate)
	s.stand(1)
	again := lead(s.victim)
	s.stand(2)
	next.Release()
	s.granted(again).Release()
	s.stand(0)
}

func tryDisturbed(s *stage) {
	first := s.must(mutex.New(s.other, line).Lock(s.ctx))
	for range 10 {
		cut := s.loseReplies()
		try := taking(func() (*coord.Hold, error) { return mutex.New(s.victim, line).TryLock(s.ctx) })
		time.Sleep(30 * time.Millisecond)
		cut()
		if r := <-try; !errors.Is(r.Err, coord.ErrBusy) && !errors.Is(r.Err, coord.ErrUnavailable) {
			s.Errorf("a try behind the holder: %v, %v", r.Hold, r.Err)
		}
	}
	s.stand(1)
	if err := first.Release(); err != nil {
		s.Error(err)
	}
	s.stand(0)
	s.must(mutex.New(s.other, line).TryLock(s.ctx)).Release()
}

func cutOffUnnoticed(s *stage) {
	h := s.must(mutex.New(s.victim, line).Lock(s.ctx))
	s.link.Stall()
	s.link.Freeze()
	began := time.Now()
	select {
	case <-h.Context().Done():
		if took := time.Since(began); took > ttl {
			s.Errorf("noticed after %v", took)
		}
	case <-time.After(2 * ttl):
		s.Error("not noticed in two sessions")
	}
	if !errors.Is(h.Err(), coord.ErrLost) || !errors.Is(context.Cause(h.Context()), coord.ErrLost) {
		s.Errorf("%v, %v; want ErrLost", h.Err(), context.Cause(h.Context()))
	}
	s.link.Cut()
	s.link.Heal()
	h.Release()
}

func takenAgain(s *stage) {
	m := mutex.New(s.victim, line)
	lost := s.must(m.Lock(s.ctx))
	s.endSession(0)
	<-lost.Context().Done()
	again := s.must(m.Lock(s.ctx))
	if again.Token() <= lost.Token() {
		s.Errorf("token %d after %d", again.Token(), lost.Token())
	}
	if err := lost.Release(); !errors.Is(err, coord.ErrLost) {
		s.Errorf("release of what was lost: %v", err)
	}
	if err := again.Err(); err != nil {
		s.Error(err)
	}
	if now := s.stand(1)[0]; now.ID != again.Node().ID {
		s.Errorf("in line is %s, want %s", now.ID, again.Node().ID)
	}
	again.Release()
}
