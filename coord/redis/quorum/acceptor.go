package quorum

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// An acceptor is one Redis of several. It votes only while it remembers all of its votes. So its place in the group is bound
// to its memory's id, which stands under the member key: "<state> <group, 16> <memory, 16> <since, 16 digits, us> <roster>". The
// state is v if it votes, f while the group is founded, h while it is filled with what the others know.
type acceptor struct {
	*server.Server
	seat    seat
	waiting atomic.Int64 // for its answers

	checking chan struct{} // held while it is checked
	checked  bool

	mu     sync.Mutex
	looked time.Time     // when its membership was last looked at
	look   chan struct{} // closed when that look is over
}

// newAcceptor returns the acceptor at an address, which need not answer yet.
func newAcceptor(ctx context.Context, at server.Address) (*acceptor, error) {
	if at.HasSentinels() {
		return nil, pkg.Invalid("%s: behind sentinels another Redis takes over that may lack votes: name one Redis itself", at.Name)
	}
	one, err := at.Dial(ctx)
	if err != nil {
		return nil, pkg.Unopened(at.Name, server.AtOpening(err))
	}
	// All that it has voted by a memory is on its disk when that comes back, and what it has voted by others counts in their seats. So
	// addresses may be exchanged while servers are restarted: otherwise a majority that has forgotten nothing could lose its votes.
	one.MayComeBack = true
	a := &acceptor{Server: one, checking: make(chan struct{}, 1)}
	a.seat.lost = func() {
		a.Log.Warn("redis/quorum: it has forgotten its votes, and does not vote until it is healed", "address", a.Address)
	}
	return a, nil
}

// A seat is an acceptor's place in the group: the memory that it votes by. It is the Known of the scripts that ask for votes,
// so an acceptor that has another memory than that does not vote.
type seat struct {
	memory atomic.Pointer[server.Memory] // nil: it does not vote
	lost   func()                        // called when it has forgotten
	twin   *acceptor                     // it had a seat with the same memory; see seating

	foreign string // the group that it was found in instead of ours
}

func (s *seat) take(m server.Memory) { s.memory.Store(&m) }
func (s *seat) leave()               { s.memory.Store(nil) }
func (s *seat) isTaken() bool        { return s.memory.Load() != nil }

func (s *seat) Current() (m server.Memory, err error) {
	if p := s.memory.Load(); p != nil {
		return *p, nil
	}
	return m, errNoVote
}

func (s *seat) Forget(m server.Memory) bool {
	p := s.memory.Load()
	if p == nil || p.ID() != m.ID() || !s.memory.CompareAndSwap(p, nil) {
		return false
	}
	s.lost()
	return true
}

// ready checks the server once, when it is reached for the first time.
func (a *acceptor) ready(ctx context.Context) error {
	select {
	case a.checking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-a.checking }()
	if a.checked {
		return nil
	}
	err := a.Check(ctx)
	a.checked = err == nil
	return err
}

// A member is what an acceptor says of itself.
type member struct {
	*acceptor
	memory server.Memory
	roster *roster // of the group and the term that it is in; nil: it is in none
	begun  string  // the group that it is being founded with; empty: none
	since  time.Duration
	err    error // it says nothing
}

// votes reports whether it votes in a term.
func (m *member) votes(r *roster) bool {
	if m.err != nil || m.roster == nil || m.roster.group != r.group || m.roster.term != r.term {
		return false
	}
	_, has := r.seatOf(m.memory.ID())
	return has
}

// listedSince is the term since which a roster lists it, or the one before did; 0: they do not.
func (m *member) listedSince(r *roster) uint64 {
	l, has := r.seatOf(m.memory.ID())
	if before := r.before(); !has && before != nil {
		l, _ = before.seatOf(m.memory.ID())
	}
	return l.since
}

// wasBefore reports whether it is of those who voted by the roster before this one. It votes by none before this any more when it has been
// told of it, and has kept what it knew, also if it is not listed now.
func (m *member) wasBefore(r *roster) bool {
	before := r.before()
	if before == nil || m.err != nil || m.roster == nil || m.roster.group != r.group || m.roster.term > r.term {
		return false
	}
	l, has := before.seatOf(m.memory.ID())
	return has && m.roster.term >= l.since
}

// asItWas is the acceptor in the memory in which it said what it is, whether it has a seat or not.
func (m *member) asItWas() *acceptor {
	a := &acceptor{Server: m.Server}
	a.seat.lost = func() {}
	a.seat.take(m.memory)
	return a
}

// lags reports whether it is in an earlier term, and votes in this one as soon as it is told of that.
func (m *member) lags(r *roster) bool {
	if m.err != nil || m.roster == nil || m.roster.group != r.group || m.roster.term >= r.term {
		return false
	}
	l, has := r.seatOf(m.memory.ID())
	return has && l.since <= m.roster.term
}

// membership finds out whether the acceptor votes, in which group, and for how long it has been in that.
func (a *acceptor) membership(ctx context.Context) member {
	m := member{acceptor: a}
	if m.err = a.ready(ctx); m.err == nil {
		if m.memory, m.err = a.Recall(ctx); m.err == nil {
			m.err = m.ask(ctx)
		}
	}
	if m.err != nil {
		m.err = fmt.Errorf("%s: %w", a.Address, m.err)
	}
	return m
}

func (m *member) ask(ctx context.Context) error {
	reply, err := m.RunIn(ctx, m.memory, memberScript, []string{m.key()}, nil)
	if err != nil {
		return err
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 2 {
		return fmt.Errorf("%w: %w", server.ErrStrange, err)
	}
	text, err := parts[0].ToString()
	if err != nil {
		return err
	}
	now, err := parts[1].AsInt64()
	if err == nil && !m.parse(text, now) {
		m.seat.leave()
	}
	return err
}

// parse reads what stands under the member key. It returns false if that is nothing that counts.
func (m *member) parse(text string, now int64) bool {
	f := strings.Fields(text)
	if len(f) == 6 && f[0] == "f" && f[2] == m.memory.ID() {
		m.begun = f[1]
	}
	if len(f) != 6 || f[0] != "v" || f[2] != m.memory.ID() {
		return false
	}
	begun, err := strconv.ParseInt(f[3], 10, 64)
	m.roster = parseRoster(f[1], f[4], f[5])
	m.since = storekit.Since(now - begun)
	return err == nil && m.roster != nil
}

// key is the member key, and floor that of the floor; see newVote.
func (a *acceptor) key() string   { return a.Beside("member") }
func (a *acceptor) floor() string { return a.Beside("floor") }

// enrol has the acceptor change its state if what stands under the member key begins with before, and returns what stands
// there afterwards. It is bound to the memory in which the acceptor said what it is.
func (m *member) enrol(ctx context.Context, before, after string, r *roster) (string, error) {
	reply, err := m.RunIn(ctx, m.memory, enrolScript, []string{m.key(), m.Index()},
		[]string{before, after + " " + m.memory.ID(), r.String(), digits(m.listedSince(r))})
	stands := ""
	if err == nil {
		stands, err = reply.ToString()
	}
	if err == nil && stands == "" {
		err = errNotEmpty
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.Address, err)
	}
	return stands, nil
}

// move takes the acceptor from an earlier term to this one. Those that have no seat there vote no more. What the caller knows of the
// acceptor may be old: so one that has lost its seat meanwhile, and has another that it was not filled for, is told nothing.
func (m *member) move(ctx context.Context, r *roster) error {
	reply, err := m.RunIn(ctx, m.memory, moveScript, []string{m.key()}, []string{r.group, digits(r.term), r.String(), digits(m.listedSince(r))})
	text := ""
	if err == nil {
		text, err = reply.ToString()
	}
	if err == nil && (!m.parse(text, 0) || m.roster.term < r.term) {
		err = errNoVote
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Address, err)
	}
	return nil
}

// beginLook begins a look at the acceptor's membership, unless the last one was a moment ago. The caller calls over when the
// look is over. Time is measured by the monotonic clock: a wall clock that is set back would put the next look off.
func (a *acceptor) beginLook() (over func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.looked.IsZero() && time.Since(a.looked) < time.Second {
		return nil, false
	}
	look := make(chan struct{})
	a.looked, a.look = time.Now(), look
	return func() { close(look) }, true
}

// votes reports whether the acceptor votes. If a look at its membership is under way it waits for that first: until then
// nothing that depends on the server's settings may be asked.
func (a *acceptor) votes(ctx context.Context) bool {
	if a.seat.isTaken() {
		return true
	}
	a.mu.Lock()
	look := a.look
	a.mu.Unlock()
	if look != nil {
		select {
		case <-look:
		case <-ctx.Done():
		}
	}
	return a.seat.isTaken()
}

// A vote is an acceptor's answer: what it has accepted, or the higher ballot that it has promised.
type vote struct {
	from     *acceptor
	accepted accepted
	higher   ballot
	refused  bool
	err      error // errMoved: it is in another term
}

// maxWaiting is how many requests to an acceptor may be without an answer. No more are sent, since the server may be frozen.
const maxWaiting = 256

func (a *acceptor) isBusy() bool { return a.waiting.Load() > maxWaiting/2 }

// ask asks for a vote in a term.
func (a *acceptor) ask(ctx context.Context, r *roster, what *server.Script, key string, args ...string) vote {
	if a.waiting.Add(1) > maxWaiting {
		a.waiting.Add(-1)
		return vote{from: a, err: errBusy}
	}
	defer a.waiting.Add(-1)
	reply, err := a.inTerm(ctx, r, what, key, args...)
	if err != nil {
		return vote{from: a, err: err}
	}
	v, err := parseVote(reply)
	v.from, v.err = a, err
	return v
}

// inTerm runs a script that newVote has made.
func (a *acceptor) inTerm(ctx context.Context, r *roster, what *server.Script, key string, args ...string) (rueidis.RedisMessage, error) {
	reply, err := a.Run(ctx, &a.seat, what, []string{a.Index(), a.Root + key, a.key(), a.floor()}, append([]string{r.stamp()}, args...))
	if err == nil && reply.IsInt64() {
		switch n, _ := reply.AsInt64(); n {
		case 2:
			err = errMoved
		case 3:
			err = errForeign
		}
	}
	return reply, err
}

// parseVote reads an answer: a number if the acceptor has agreed, {what it has accepted or nil, age}, or {a higher ballot}.
func parseVote(reply rueidis.RedisMessage) (v vote, err error) {
	if reply.IsInt64() {
		return v, nil
	}
	parts, err := reply.ToArray()
	switch {
	case err != nil:
		return v, err
	case len(parts) == 1:
		higher, err := parts[0].ToString()
		v.refused, v.higher = true, parseBallot(higher)
		if err == nil && !v.higher.isPossible() {
			err = server.ErrStrange
		}
		return v, err
	case len(parts) != 2:
		return v, server.ErrStrange
	case parts[0].IsNil():
		return v, nil
	}
	text, err := parts[0].ToString()
	if err == nil {
		v.accepted, err = parseAccepted(text)
	}
	v.accepted.age = server.Micros(parts[1])
	return v, err
}

// kept is what an acceptor keeps for a register.
type kept struct {
	promised ballot
	accepted accepted
	strange  bool // it is nothing that we have written
}

// A dump is what an acceptor keeps for the registers of a prefix, and its floor.
type dump struct {
	kept  map[string]kept
	floor ballot
}

// encode is the text of it, but for the time. What is strange stays so, however short.
func (k kept) encode() string {
	if k.strange {
		return "?"
	}
	return k.promised.String() + k.accepted.ballot.String() + k.accepted.content.encode()
}

func parseKept(text []byte, age time.Duration) (k kept, err error) {
	if len(text) < timeAt {
		return k, errForeign
	}
	k.promised = parseBallot(string(text))
	k.accepted, err = parseAccepted(string(text[ballotSize:]))
	if k.accepted.age = age; err == nil && !k.promised.isPossible() {
		err = errForeign
	}
	return k, err
}

// dump returns all that the acceptor keeps for the registers of a prefix, in a term, or what is not empty.
func (a *acceptor) dump(ctx context.Context, r *roster, prefix string, all bool) (d dump, err error) {
	at := server.Layout{Time: timeAt, Gone: versionAt}
	if all {
		at.Gone, at.Strange = -1, true
	}
	d.kept = make(map[string]kept)
	err = a.List(ctx, &a.seat, prefix, at, func(key string, text []byte, age time.Duration) (more bool, err error) {
		k, err := parseKept(text, age)
		k.strange = err != nil
		d.kept[key] = k
		return true, nil
	})
	if err == nil { // it was in the term when it took its seat. If it is now, it was all the time
		present := a.ask(ctx, r, presentScript, "")
		d.floor, err = present.higher, present.err
	}
	if err != nil {
		return d, fmt.Errorf("%s: %w", a.Address, err)
	}
	return d, nil
}
