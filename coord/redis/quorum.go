package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Quorum keeps registers in several Redis servers, as a rule three or five, that know nothing of one another. It goes on,
// and forgets nothing, as long as more than half of them can be reached and have forgotten nothing.
//
// Each register is agreed upon by CASPaxos: the servers are the acceptors, and each process is a proposer.
type Quorum struct {
	all  []*acceptor
	root string
	log  *slog.Logger
	trip atomic.Int64 // how long a trip takes, ns
	me   string       // our name for the referees

	group  atomic.Pointer[string]
	forgot atomic.Bool

	mu      sync.Mutex
	mine    map[string]promised           // by key
	open    map[register.Version]struct{} // swaps of which it is open whether they were applied
	turns   map[string]*acceptor          // by key: the referee has reserved the next swap for us
	closed  bool
	running sync.WaitGroup
	life    context.Context
	end     context.CancelFunc

	healAfter time.Duration
}

var _ register.Store = (*Quorum)(nil)

// promised is what a majority has accepted from us, together with the promise of our next ballot. As long as the promise
// holds, nobody else has changed the register.
type promised struct {
	ballot ballot // the next one
	last   accepted
	at     time.Time
}

const (
	// A round that takes longer does not count. An acceptor that has forgotten its votes is healed only after twice that: by
	// then, what it had promised and accepted either counts, and is found at others, or never will.
	roundLimit = 4 * time.Second
	healAfter  = 10 * time.Second

	// keepPromised is for how long a promise is used, and maxPromised how many are kept.
	keepPromised = time.Minute
	maxPromised  = 10_000
)

func (q *Quorum) majority() int { return len(q.all)/2 + 1 }

var (
	errRefused = errors.New("another proposer stands in the way")
	errSlow    = errors.New("it took too long to count")
)

// tally is what came of a round.
type tally struct {
	yes    []vote
	higher ballot // the highest that stood in the way
	never  bool   // nobody has agreed, and nobody will
}

// poll asks all acceptors, and returns when a majority has agreed, or no longer can. The requests to the others go on. The
// error is errRefused if only other proposers stood in the way.
func (q *Quorum) poll(ctx context.Context, ask func(ctx context.Context, a *acceptor) vote) (t tally, err error) {
	if err := ctx.Err(); err != nil {
		return t, err
	}
	begun := time.Now()
	votes := make(chan vote, len(q.all))
	q.mu.Lock()
	if err := q.canServe(); err != nil {
		q.mu.Unlock()
		return t, err
	}
	for _, a := range q.all {
		q.running.Go(func() {
			// It does not end with ctx: what one acceptor has, all should have.
			ctx, cancel := context.WithTimeout(q.life, roundLimit)
			defer cancel()
			if !a.votes(ctx) {
				votes <- vote{from: a, err: errNoVote}
				return
			}
			votes <- ask(ctx, a)
		})
	}
	q.mu.Unlock()
	var refused int
	var failed []error
	var enough <-chan time.Time
	for left := len(q.all); left > 0; {
		var v vote
		select {
		case v = <-votes:
			left--
		case <-ctx.Done():
			return t, ctx.Err()
		case <-enough:
			return t, errRefused
		}
		switch {
		case v.err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", v.from.address, v.err))
			if errors.Is(v.err, errNoVote) {
				q.lookAgain(v.from)
			}
		case v.refused:
			if refused++; t.higher.less(v.higher) {
				t.higher = v.higher
			}
		default:
			t.yes = append(t.yes, v)
		}
		if len(t.yes) == q.majority() {
			if time.Since(begun) > roundLimit {
				return t, errSlow
			}
			was := q.trip.Load()
			q.trip.Store(was + (int64(time.Since(begun))-was)/8)
			return t, nil
		}
		if refused > 0 && len(t.yes)+left < q.majority() && enough == nil {
			// The others are about to answer; then it is known whether any has agreed.
			patience := time.NewTimer(q.usual())
			defer patience.Stop()
			enough = patience.C
		}
	}
	t.never = refused == len(q.all)
	if refused > 0 && len(failed) < q.majority() {
		return t, errRefused
	}
	return t, fmt.Errorf("%d of %d do not vote: %w", len(failed), len(q.all), list(failed))
}

// list joins errors in one line. A denial counts only if all are denied.
func list(all []error) error {
	var texts []string
	denied := len(all) > 0
	for _, err := range all {
		texts = append(texts, err.Error())
		denied = denied && errors.Is(err, driver.ErrDenied)
	}
	if denied {
		return fmt.Errorf("%w: %s", driver.ErrDenied, strings.Join(texts, "; "))
	}
	return errors.New(strings.Join(texts, "; "))
}

func (q *Quorum) keys(a *acceptor, key string) []string {
	return []string{a.mark, a.index, q.root + key}
}

// change runs rounds until a majority has accepted what f makes of what is there. tried says that an earlier round may
// have done so already. If f also returns a time, nobody else is to disturb the register for that long.
func (q *Quorum) change(ctx context.Context, key string, f func(now content, tried bool) (_ content, reserve time.Duration)) (accepted, error) {
	var last ballot // of what somebody may have accepted from us
	turn := q.referee(key)
	defer func() { turn.end() }()
	for {
		at, now, ok := q.take(key)
		if !ok {
			// Well above the others' ballots: a quick proposer goes on while we ask.
			at = newBallot(at.count + 1000)
			votes, err := q.poll(ctx, func(ctx context.Context, a *acceptor) vote {
				return a.ask(ctx, prepareScript, q.keys(a, key), []string{at.String()})
			})
			if err != nil {
				settled, err := q.refused(ctx, key, turn, at, votes.higher, err, last, f)
				if settled != nil || err != nil {
					return settled.or(), err
				}
				continue
			}
			now = latest(votes.yes)
		}
		next, reserve := f(now.content, last != ballot{})
		proposal := accepted{ballot: at, content: next}
		if next.id == now.content.id {
			proposal.age = now.age
		}
		votes, err := q.poll(ctx, q.accept(key, proposal))
		if err == nil {
			q.put(key, promised{at.next(), proposal, time.Now()})
			turn.reserve = reserve
			return proposal, nil
		}
		if !votes.never {
			last = at
		}
		settled, err := q.refused(ctx, key, turn, at, votes.higher, err, last, f)
		if settled != nil || err != nil {
			return settled.or(), err
		}
	}
}

// refused is called after a round has failed. It returns nothing if another proposer disturbed the round, and it is our turn
// to try again. If f leaves what there is now as it is, refused returns that: there is nothing to try.
func (q *Quorum) refused(ctx context.Context, key string, turn *turn, at, higher ballot, err error, last ballot,
	f func(content, bool) (content, time.Duration)) (*accepted, error) {
	if at.less(higher) {
		at = higher
	}
	q.put(key, promised{ballot: at})
	if err != errRefused {
		return nil, err
	}
	// Looking disturbs nobody. What a majority has accepted above our last proposal has outlived that.
	for range 5 {
		votes, err := q.look(ctx, key)
		if err != nil {
			break
		}
		if agree(votes) && (last == ballot{} || last.less(votes[0].accepted.ballot)) {
			now := latest(votes)
			if next, reserve := f(now.content, last != ballot{}); next.id == now.content.id {
				turn.reserve = reserve
				return &now, nil
			}
			break
		}
		if (last == ballot{}) {
			break // there is nothing to find out before others have gone too far
		}
	}
	return nil, turn.take(ctx)
}

func (a *accepted) or() accepted {
	if a == nil {
		return accepted{}
	}
	return *a
}

// look asks what acceptors have accepted.
func (q *Quorum) look(ctx context.Context, key string) ([]vote, error) {
	votes, err := q.poll(ctx, func(ctx context.Context, a *acceptor) vote {
		return a.ask(ctx, lookScript, []string{a.mark, q.root + key}, nil)
	})
	return votes.yes, err
}

func (q *Quorum) accept(key string, p accepted) func(context.Context, *acceptor) vote {
	args := []string{p.ballot.String(), p.ballot.next().String(), fmt.Sprint(p.age.Microseconds()), p.content.encode()}
	for i, n := range p.content.notes {
		args = append(args, n.Topic, tag(p, key, i)+string(n.Text))
	}
	return func(ctx context.Context, a *acceptor) vote {
		args := append([]string(nil), args...) // each has its channels
		for i := 4; i < len(args); i += 2 {
			args[i] = a.channels + args[i]
		}
		return a.ask(ctx, acceptScript, q.keys(a, key), args)
	}
}

// latest returns what a new proposal has to go on from. Its age is the smallest that any acceptor gives.
func latest(votes []vote) (best accepted) {
	for _, v := range votes {
		if best.ballot.less(v.accepted.ballot) {
			best = v.accepted
		}
	}
	for _, v := range votes {
		if v.accepted.content.id == best.content.id && v.accepted.ballot != (ballot{}) {
			best.age = min(best.age, v.accepted.age)
		}
	}
	return best
}

// take returns the ballot that is promised to us and what was accepted last, or false and the highest known ballot.
func (q *Quorum) take(key string) (ballot, accepted, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.mine[key]
	delete(q.mine, key) // one proposal for each ballot
	if !ok || time.Since(p.at) > keepPromised {
		return p.ballot, accepted{}, false
	}
	p.last.age += time.Since(p.at)
	return p.ballot, p.last, true
}

func (q *Quorum) put(key string, p promised) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, there := q.mine[key]; !there && len(q.mine) >= maxPromised {
		for other := range q.mine {
			delete(q.mine, other)
			break
		}
	}
	q.mine[key] = p
}

func (q *Quorum) item(key string, a accepted) register.Item {
	if a.content.version.IsZero() {
		return register.Item{Key: key}
	}
	return register.Item{Key: key, Value: a.content.value, Version: a.content.version, Age: a.age}
}

// Read asks all acceptors. It takes one trip if a majority has accepted the same; otherwise the latest is written back
// first.
func (q *Quorum) Read(ctx context.Context, key string) (register.Item, error) {
	a, err := q.read(ctx, key)
	return q.item(key, a), pkg.Failed(ctx, err, "read %q", key)
}

func (q *Quorum) read(ctx context.Context, key string) (accepted, error) {
	for tries := 0; ; tries++ {
		votes, err := q.look(ctx, key)
		if err != nil {
			return accepted{}, err
		}
		if tries == 2 || agree(votes) { // perhaps somebody swaps it just now
			return q.settle(ctx, key, votes)
		}
	}
}

func agree(votes []vote) bool {
	for _, v := range votes {
		if v.accepted.ballot != votes[0].accepted.ballot {
			return false
		}
	}
	return true
}

// settle returns what the votes of a majority agree on. If they do not, it makes a majority agree first.
func (q *Quorum) settle(ctx context.Context, key string, votes []vote) (accepted, error) {
	if !agree(votes) {
		return q.change(ctx, key, func(now content, _ bool) (content, time.Duration) { return now, 0 })
	}
	return latest(votes), nil
}

func (q *Quorum) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	if len(s.Value) > maxValue {
		err := fmt.Errorf("%w: it has %d bytes, and %d are the most", register.ErrTooLarge, len(s.Value), maxValue)
		return register.Item{}, pkg.Failed(ctx, err, "swap %q", s.Key)
	}
	var next content
	var outcome error
	again := q.wasOpen(s.Next)
	a, err := q.change(ctx, s.Key, func(now content, tried bool) (content, time.Duration) {
		outcome = nil
		switch {
		case now.version == s.Old && (next.id.IsZero() || now.id != next.id):
			if next.id.IsZero() {
				next = now.after(s)
			} else {
				id := next.id
				next = now.after(s)
				next.id = id
			}
			return next, 0
		case now.version == s.Next:
			return now, 0
		}
		outcome = register.ErrConflict
		switch {
		case again && slices.Contains(now.past, s.Next):
			outcome = errApplied
		case tried && !next.id.IsZero():
			outcome = outcomeOf(next, now)
		}
		return now, s.Reserve // writing it back makes sure that it is there
	})
	switch {
	case err != nil:
	case errors.Is(outcome, errApplied):
		a, outcome = accepted{content: content{version: s.Next, value: s.Value}}, nil
	case outcome != nil && !errors.Is(outcome, register.ErrConflict):
		a = accepted{}
	}
	if err = cmp.Or(err, outcome); err != nil && !errors.Is(err, register.ErrConflict) {
		q.leaveOpen(s.Next)
	}
	return q.item(s.Key, a), pkg.Failed(ctx, err, "swap %q", s.Key)
}

// wasOpen reports whether it is open if an earlier try of a swap was applied. Then the past of the register may tell.
func (q *Quorum) wasOpen(next register.Version) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, open := q.open[next]
	delete(q.open, next)
	return open
}

func (q *Quorum) leaveOpen(next register.Version) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !next.IsZero() && len(q.open) < maxPromised {
		q.open[next] = struct{}{}
	}
}

var (
	errApplied = errors.New("it was applied, and swapped again")
	errOpen    = errors.New("it was swapped again and again meanwhile, and it is open whether it was applied")
)

// outcomeOf tells what became of a swap that was proposed in vain, given what stands there now.
func outcomeOf(s, now content) error {
	for _, id := range now.past {
		if id == s.id {
			return errApplied
		}
		if len(s.past) > 0 && id == s.past[0] {
			return register.ErrConflict // what it was to replace was replaced by another
		}
	}
	if len(now.past) < pastSize && len(s.past) == 0 {
		return register.ErrConflict // all that was ever there is known
	}
	return errOpen
}

func (q *Quorum) Strength() driver.Strength { return quorumStrength }

// Close ends the connections.
func (q *Quorum) Close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.end()
	var closing sync.WaitGroup
	for _, a := range q.all {
		closing.Go(func() { a.Close() })
	}
	closing.Wait()
	q.running.Wait()
	return nil
}

// List shows what a majority has, and where none agrees, makes one agree first.
func (q *Quorum) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	return pkg.Failed(ctx, q.list(ctx, prefix, yield), "list %q", prefix)
}

func (q *Quorum) list(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if q.forgot.Load() {
		return register.ErrForgot
	}
	dumps, err := q.dump(ctx, prefix, q.all)
	if err != nil {
		return err
	}
	byKey := make(map[string][]vote)
	for _, d := range dumps {
		for key, k := range d {
			byKey[key] = append(byKey[key], vote{accepted: k.accepted})
		}
	}
	for key, votes := range byKey {
		for len(votes) < len(dumps) {
			votes = append(votes, vote{}) // an acceptor that has nothing
		}
		a, err := q.settle(ctx, key, votes)
		if err != nil {
			return err
		}
		if !a.content.version.IsZero() && !yield(q.item(key, a)) {
			return nil
		}
	}
	return nil
}

// kept is what an acceptor keeps for a register.
type kept struct {
	promised ballot
	accepted accepted
}

// dump returns what each of a majority of all acceptors keeps for the registers of a prefix.
func (q *Quorum) dump(ctx context.Context, prefix string, from []*acceptor) (dumps []map[string]kept, err error) {
	type result struct {
		from *acceptor
		kept map[string]kept
		err  error
	}
	results := make(chan result, len(from))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, a := range from {
		go func() {
			var all map[string]kept
			err := errNoVote
			if a.votes(ctx) {
				all, err = a.dump(ctx, q.root, prefix)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", a.address, err)
			}
			results <- result{a, all, err}
		}()
	}
	var failed []error
	for range from {
		select {
		case r := <-results:
			if errors.Is(r.err, errNoVote) {
				q.lookAgain(r.from)
			}
			if r.err != nil {
				failed = append(failed, r.err)
			} else if dumps = append(dumps, r.kept); len(dumps) == q.majority() {
				return dumps, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, list(failed)
}

func (a *acceptor) dump(ctx context.Context, root, prefix string) (map[string]kept, error) {
	all := make(map[string]kept)
	from, to := "["+root+prefix, "("+root+prefix+"\xff"
	for {
		reply, err := a.vote(ctx, dumpScript, []string{a.mark, a.index}, []string{from, to, fmt.Sprint(pageSize)})
		if err != nil {
			return nil, err
		}
		page, err := reply.ToArray()
		if err != nil || len(page)%3 != 1 {
			return nil, fmt.Errorf("%w: %d parts, %w", errStrange, len(page), err)
		}
		for i := 1; i < len(page); i += 3 {
			key, err := page[i].ToString()
			if err != nil {
				return nil, err
			}
			text, err := page[i+1].ToString()
			if err != nil || len(text) < ballotSize {
				return nil, fmt.Errorf("%w: %w", errStrange, err)
			}
			if strings.HasPrefix(key, root+rehearsals) {
				continue
			}
			k := kept{promised: parseBallot(text)}
			if k.accepted, err = parseAccepted(text[ballotSize:]); err != nil {
				return nil, err
			}
			k.accepted.age = age(page[i+2])
			all[strings.TrimPrefix(key, root)] = k
		}
		if page[0].IsNil() {
			return all, nil
		}
		last, err := page[0].ToString()
		if err != nil {
			return nil, err
		}
		from = "(" + last
	}
}

// hash is the same for a key in every process.
func hash(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}
