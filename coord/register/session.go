package register

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/deadlines"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// session is a register that its process renews: each time it gets another version. A client that finds the same version for
// a TTL deletes the register, and the session is over. In a store that knows by itself whether a process lives, it is not
// renewed.
type session struct {
	d        *Driver
	id       sessionID
	life     *driverkit.Life
	deadline *driverkit.Deadline
	stop     func() // listening
	release  func() // the keeping; nil without a Presence
	joined   atomic.Uint64
	usual    atomic.Int64 // ns that a join takes
	waiting  atomic.Int64 // how many wait
	rumour   atomic.Bool  // somebody has said that it was ended
	rests    atomic.Bool  // its register may say that it rests
	heard    atomic.Int64 // when the store was, by clock.own, for Rests
	proven   atomic.Int64 // when the last renewal was sent, by clock.own
	stir     driverkit.Bell

	renewing sync.Mutex
	version  Version
	renewals uint64
	tries    map[Version]time.Time // renewals whose outcome is open, and when they were sent

	mu       sync.Mutex
	places   map[uint64]*place
	awaiting int           // how many of them wait for their turn
	risen    chan struct{} // closed when it is renewed the next time, or that is refused, if anybody asked
	refused  error         // why it may not be renewed
	asked    time.Time     // when that was asked
	asking   bool          // whether the session stands
	again    bool          // once more after that
}

var (
	errEnded     = errors.New("another process, or an operator, has ended it")
	errExpired   = errors.New("it was not renewed in time, and is gone")
	errLeftOpen  = errors.New("it was closed")
	errAbandoned = errors.New("it was abandoned")
	errUnopened  = errors.New("it could not be opened")

	errCalled = errors.New("somebody has called it")
)

// renewals is how often a session is renewed in a TTL.
const renewals = 4

// ages is how far away a session's deadline is in a store that knows whether its process lives.
const ages = 100 * 365 * 24 * time.Hour

func newSession(d *Driver) *session {
	return &session{
		d:        d,
		id:       sessionID(NewVersion()),
		life:     driverkit.NewLife(d.life.Context()),
		deadline: driverkit.NewDeadline(),
		stop:     func() {},
		stir:     driverkit.NewBell(),
		tries:    make(map[Version]time.Time),
		places:   make(map[uint64]*place),
	}
}

// open listens first, so that whatever is told to the session is heard from its beginning.
func (s *session) open(ctx context.Context) (err error) {
	if s.d.presence != nil {
		kctx, cancel := s.d.requestFor(ctx)
		defer cancel()
		if s.release, err = s.d.presence.Keep(kctx, s.id.key()); err != nil {
			return err
		}
	}
	if s.stop, err = s.d.listen(ctx, s.id.key(), s.hear); err != nil {
		s.stop = func() {}
		return err
	}
	version, sent := NewVersion(), time.Now()
	sctx, cancel := s.d.requestFor(ctx)
	defer cancel()
	// If its outcome stays open it may be applied yet. Nobody knows the id, so the sweeper takes the session for dead.
	it, err := s.d.store.Swap(sctx, Swap{Key: s.id.key(), Next: version, Value: s.heartbeat(sent, false).encode(), By: s.d.self})
	if err != nil {
		return err
	}
	s.d.clock.sampled(it, sent, time.Now())
	s.version = version
	s.renewed(sent)
	return nil
}

// begin makes a session known, unless the store was found to have forgotten since lapses were counted.
func (d *Driver) begin(s *session, lapses int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lapses != lapses {
		return false
	}
	d.sessions[s.id] = s
	return true
}

// ended is called after the end of a session.
func (d *Driver) ended(s *session) {
	d.mu.Lock()
	delete(d.sessions, s.id)
	d.mu.Unlock()
	s.free()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places { // a session that was lost leaves them as they are
		p.leaveClerk()
	}
}

// end ends a session unless it has been renewed since version.
func (d *Driver) end(ctx context.Context, id sessionID, version Version) error {
	rctx, cancel := d.requestFor(ctx)
	defer cancel()
	tell := d.notes(recipient{id: id}, "", 0, []notice{{what: allOver}})
	_, err := d.store.Swap(rctx, Swap{Key: id.key(), Old: version, Notes: tell, By: d.self})
	if s := d.session(id); s != nil && err == nil {
		s.life.End(errEnded)
	}
	return err
}

// free stops listening. It goes on keeping a session that was abandoned: somebody may still work, and only the end of the
// process tells when that is over.
func (s *session) free() {
	s.stop()
	if s.release != nil && !errors.Is(context.Cause(s.life.Context()), errAbandoned) {
		s.release()
	}
}

func (s *session) heartbeat(now time.Time, rest bool) heartbeat {
	h := heartbeat{ttl: s.d.cfg.ttl, at: now, renewals: s.renewals}
	if rest {
		h.ttl, h.usual = restTTLs*h.ttl, h.ttl
	}
	return h
}

func (s *session) renewed(sent time.Time) {
	if s.d.presence != nil {
		s.deadline.Renewed(sent, ages)
		return
	}
	s.deadline.Renewed(sent, deadlines.Swapped(0, s.d.cfg.ttl))
	s.proven.Store(int64(s.d.clock.own(sent)))
}

func (s *session) Deadline() time.Time   { return s.deadline.Time() }
func (s *session) Done() <-chan struct{} { return s.life.Done() }

// Why says why the session is over.
func (s *session) Why() error { return s.life.Why() }

// keepUp renews the session until it is over. Where the kernel keeps it, it only looks whether the register stands.
func (s *session) keepUp() {
	pause := s.d.cfg.ttl / renewals
	sent := time.Now()
	next := sent.Add(pause)
	for failures := 0; s.untilDue(sent, next); {
		sent = time.Now()
		err := s.renew(sent)
		switch {
		case err == nil:
			failures, next = 0, sent.Add(pause)
			if s.rests.Load() {
				next = sent.Add(restTTLs * pause)
			}
		case s.life.Over():
			return
		default:
			s.d.saw(err)
			s.unrenewed(sent, err)
			next = time.Now().Add(driverkit.Jitter(min(driverkit.Pause(failures), pause/4)))
			failures++
		}
	}
}

// untilDue waits until the next renewal is due, or somebody stirs the session while nobody may enter on it; but whoever stirs all the
// time does not have it renewed all the time. It reports whether the session goes on.
func (s *session) untilDue(sent, next time.Time) bool {
	for time.Until(next) > 0 && !s.life.Over() {
		t := time.NewTimer(time.Until(next))
		select {
		case <-t.C:
		case <-s.stir:
			if soon := sent.Add(hintEvery); !s.mayEnter() && soon.Before(next) {
				next = soon
			}
		case <-s.life.Done():
		}
		t.Stop()
	}
	return !s.life.Over()
}

func (s *session) renew(sent time.Time) error {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if s.d.presence != nil {
		return s.stands(s.life.Context())
	}
	err := s.renewOnce(sent)
	if err == errSpoilt {
		err = s.renewOnce(time.Now())
	}
	for err == errCalled {
		err = s.renewOnce(time.Now())
	}
	return err
}

// errSpoilt is for a register in which no session has written what is there. Nobody can act on that, so the session writes over it.
var errSpoilt = errors.New("the session's register was spoilt")

func (s *session) renewOnce(sent time.Time) error {
	ctx, cancel := s.d.requestFor(ForRenewal(s.life.Context()))
	defer cancel()
	s.renewals++
	version, rest := NewVersion(), s.lieDown()
	s.tries[version] = sent
	s.forgetTries(sent)
	cur, err := s.d.store.Swap(ctx, Swap{Key: s.id.key(), Old: s.version, Next: version, Value: s.heartbeat(sent, rest).encode(), By: s.d.self, Clock: true})
	switch {
	case err == nil:
		s.d.clock.sampled(cur, sent, time.Now())
		s.version = version
		clear(s.tries)
		s.renewed(sent)
		s.stood(rest)
		return nil
	case errors.Is(err, ErrForgot):
		s.d.forgot(err)
		return err
	case !errors.Is(err, ErrConflict):
		return err
	case cur.Version.IsZero():
		s.gone()
		return err
	case cur.Version == s.version: // somebody else has the next swap reserved
		return err
	case s.isCall(cur):
		s.version = cur.Version
		return errCalled
	}
	was, ok := s.tries[cur.Version]
	if !ok {
		return s.replaced(cur)
	}
	s.version = cur.Version // an earlier try was applied after all
	s.renewed(was)
	return err
}

// replaced is called when the session's register has what it did not write.
func (s *session) replaced(cur Item) error {
	if _, is := parseHeartbeat(cur.Value); !is {
		s.version = cur.Version
		return errSpoilt
	}
	// The store has not noticed, so elsewhere somebody may be let in already: this is no ErrForgot.
	err := fmt.Errorf("the register of session %v has gone back: %v", s.id, ErrForgot)
	s.d.forgot(err)
	return err
}

// forgetTries drops tries that are old: the store may be away for days. The first ones stay: one of them is likely to have been applied,
// or to be when a server that was stopped goes on.
func (s *session) forgetTries(now time.Time) {
	if len(s.tries)%256 != 0 {
		return
	}
	early := time.Duration(s.proven.Load()) + lateAtMost
	maps.DeleteFunc(s.tries, func(_ Version, sent time.Time) bool {
		return now.Sub(sent) > lateAtMost && s.d.clock.own(sent) > early
	})
}

// isCall reports whether what stands in the session's register was put there by somebody who calls it. needs renewing.
func (s *session) isCall(it Item) bool {
	h, _ := parseHeartbeat(it.Value)
	if h.called.IsZero() {
		return false
	}
	was, ours := s.tries[h.called]
	if ours { // that was applied before
		s.renewed(was)
	}
	return ours || h.called == s.version
}

// stands asks whether the session's register is there. If it is not the session is over.
func (s *session) stands(ctx context.Context) error {
	rctx, cancel := s.d.requestFor(ctx)
	defer cancel()
	it, err := s.d.store.Read(rctx, s.id.key())
	switch {
	case err != nil:
		return s.life.Verdict(s.d.failed(ctx, err))
	case it.Version.IsZero():
		s.gone()
	}
	return s.life.Why()
}

// gone ends a session whose register is not there. Nobody ends one before its time is up: if it goes earlier, the store is as it was before
// the session began, and others may be let in beside whoever held. That somebody has said that it is over, as anybody can, is no
// other reason.
func (s *session) gone() {
	switch {
	case s.d.sure && s.d.presence == nil && !s.d.trusted && time.Until(s.Deadline()) > 0:
		s.d.forgot(fmt.Errorf("the register of session %v has gone before anybody may end it: %v", s.id, ErrForgot))
	case s.rumour.Load(): // whoever said so was right
		s.life.End(errEnded)
	default:
		s.life.End(errExpired)
	}
}

// alive calls stands until there is an answer.
func (s *session) alive(ctx context.Context) error {
	for tries := 0; ; tries++ {
		err := s.stands(ctx)
		if err == nil || s.life.Stopped(ctx) != nil {
			return s.life.Verdict(err)
		}
		if err := driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))); err != nil {
			return err
		}
	}
}

// hear takes in a note. It does not block.
func (s *session) hear(text []byte) {
	if text == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range s.places {
			p.hints.Ring()
		}
		s.stir.Ring()
		return
	}
	n, ok := readNote(text)
	switch {
	case !ok:
		s.d.madeNoSense(text)
	case s.d.trusted || s.d.isProven(s.id, n):
		s.heed(n.line, n.seq, n.all)
	default:
		s.doubtful(n)
	}
}

// doubtful takes in a note that anybody may have sent.
func (s *session) doubtful(n message) {
	for _, said := range n.all {
		if s.isAbout(said.what) {
			continue
		}
		if p := s.place(said.n, n.line); p != nil {
			p.hint(n.seq, said.what)
		}
	}
}

// heed takes in what is certain, of the line that its sender stands in.
func (s *session) heed(line string, seq uint64, all []notice) {
	for _, said := range all {
		if s.isAbout(said.what) {
			continue
		}
		if p := s.place(said.n, line); p != nil {
			p.clerk.changed(seq)
			p.heed(seq, said.what)
		}
	}
}

// isAbout reports whether something is said of the session itself, and takes it in. Who stands in a line may speak for that line only:
// that the session is over has to be asked.
func (s *session) isAbout(what byte) bool {
	switch {
	case what == showYourself:
		s.stir.Ring()
	case what != allOver:
		return false
	case s.d.trusted:
		s.life.End(errEnded)
	default:
		s.ask()
	}
	return true
}

// calm is for how long a place leaves hints alone after it has followed one: who sends many of them makes nobody look all
// the time. Each look goes through the line, so where thousands wait, they look less often.
func (s *session) calm() time.Duration {
	return max(hintEvery, time.Duration(s.waiting.Load())*hintEvery/500)
}

// place returns a node of the session if it is in that line.
func (s *session) place(n uint64, line string) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.places[n]; p != nil && p.clerk.name == line {
		return p
	}
	return nil
}

// ask finds out whether the session is over, as somebody says. If there is no answer soon, it is: see place.check.
func (s *session) ask() {
	s.rumour.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking {
		s.again = true
		return
	}
	s.asking = s.life.Go(func() {
		for more := true; more; {
			s.mu.Lock()
			s.again = false
			s.mu.Unlock()
			if driverkit.DoubtFor(s.life.Context(), s.life, s.d.unanswered(), s.alive) != nil {
				s.life.End(errEnded)
				return
			}
			if driverkit.Sleep(s.life.Context(), hintEvery) != nil {
				return
			}
			s.mu.Lock()
			more = s.again
			s.asking = more
			s.mu.Unlock()
		}
	})
}

// doubt has places look, since something may have been told to them.
func (s *session) doubt(all []notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range all {
		if p := s.places[n.n]; p != nil {
			p.doubt()
		}
	}
}

// Close takes away all nodes of the session, and its register.
func (s *session) Close(ctx context.Context) error {
	if s.life.Over() {
		return nil
	}
	s.mu.Lock()
	clerks := make(map[*clerk]bool)
	for _, p := range s.places {
		clerks[p.clerk] = true
	}
	s.mu.Unlock()
	if !s.life.End(errLeftOpen) {
		return nil
	}
	var prunes []*wish
	for c := range clerks {
		prunes = append(prunes, c.prune(map[sessionID]bool{s.id: true}))
	}
	err := s.unregister(ctx)
	for _, w := range prunes {
		select {
		case <-w.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if rest := s.life.Rest(ctx); err == nil {
		err = rest
	}
	return err
}

// unregister deletes the register. If that does not succeed in time the session is left to its TTL, or to the kernel.
func (s *session) unregister(ctx context.Context) error {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	version := s.version
	for tries := 0; ; tries++ {
		rctx, cancel := s.d.requestFor(ctx)
		cur, err := s.d.store.Swap(rctx, Swap{Key: s.id.key(), Old: version, By: s.d.self})
		cancel()
		switch {
		case err == nil || errors.Is(err, ErrForgot):
			return nil
		case errors.Is(err, ErrConflict):
			if version = cur.Version; version.IsZero() {
				return nil
			}
		case driver.IsLasting(err) || ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		}
		if err := driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))); err != nil {
			return err
		}
	}
}

func (s *session) Abandon(ctx context.Context) {
	s.life.AwaitErrands(ctx)
	s.life.End(errAbandoned)
}
