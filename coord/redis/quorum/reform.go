package quorum

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Heal gives all servers that have forgotten their votes, and that can be reached, what the others know, so that they vote
// again. Call it when the log says that a server does not vote: after it was emptied, or restarted without having kept all
// that it answered. A majority must vote meanwhile, and everybody may go on. It does no harm to call it for nothing, or from several
// processes. The servers must be named as they were when they joined the group.
//
// If a majority votes no more since one has forgotten while another was taken in by Reform, name all of them, also the new one and the
// one whose place it takes: the new one is given what the others know, and then votes with them.
func (q *Store) Heal(ctx context.Context) error { return q.reform(ctx, "heal", q.heals) }

// Reform makes the group consist of the servers that were named at [Open], one after the other: a server that is not of the
// group yet takes the place of one that is not named any more, or whose name leads to another by now, or comes in addition. A new
// server must be empty, or have forgotten its votes. A group never becomes smaller. To replace a server, a majority of the others must vote. To add one, a majority of the
// new group must, without the new one: so all three before there can be four.
// If one of the three forgets before the new one votes, nothing is lost, but nobody can do anything until Heal is called. If the new one
// is lost as well before that, the group has to be founded anew.
//
// If an earlier call has come to an end halfway, what it has begun is ended first. If that takes servers that are away, or are not named
// here, the error says which: name these beside those that vote. But that a server is added, which nobody has been told yet and which is
// not there, is given up if another has forgotten meanwhile.
//
// Everybody may go on meanwhile, also who names the earlier servers, as long as those he names are a majority of the new
// group. Have all processes name the new ones before the next one is replaced.
func (q *Store) Reform(ctx context.Context) error { return q.reform(ctx, "reform", q.reforms) }

// rosterKey is where the group decides on its next roster. No key of a caller's has a control character.
const rosterKey = "\x01roster"

// reform has the group take one step after the other, until plan finds no more. A step is this:
//
//  1. The group decides on the next roster, in a register of its own. If somebody else has decided on another, that one counts, and
//     if it cannot go on, the group stays as it is. Only that a server is added is given up then, if that one is away.
//  2. All that can be reached are told. When a majority of the servers have been, the term before is over: no majority votes
//     there any more. So what was agreed in it is known to each majority of those who have been told, but the new one.
//  3. The new one is emptied and filled with what a majority of the servers before know, all of which have been told, and votes from then
//     on. So it need not be one of a majority that votes who fills it: should one have forgotten, the others of before suffice, and the
//     one that is to go is as good as any. Others may agree on more meanwhile: without the new one, and so any majority later has
//     somebody who knows.
//
// Whoever comes to an end in between leaves a group that goes on, and the next to call it takes the steps that are left.
func (q *Store) reform(ctx context.Context, what string, plan func(*roster, []member) (*roster, error)) error {
	err := q.takeSteps(ctx, plan)
	if err != nil {
		return fmt.Errorf("turnwise: %s: %s: %w", pkg, what, err)
	}
	return nil
}

func (q *Store) takeSteps(ctx context.Context, plan func(*roster, []member) (*roster, error)) error {
	for range 100 {
		all, err := q.survey(ctx, func([]member) bool { return false })
		if err != nil {
			return err
		}
		r := cmp.Or(rosterOf(all), halfwayOf(all))
		if r == nil {
			if err := unnamed(all); err != nil {
				return err
			}
			// Nobody knows all that counted, so nothing can be given back.
			return fmt.Errorf("no majority votes: if the others have forgotten, too, empty all of them, and the next to open them founds the group anew: %w",
				joinErrors(nonVoters(all)))
		}
		if err := twins(all); err != nil {
			return err
		}
		if r.group != q.roster.Load().group {
			return fmt.Errorf("%w: the group was founded anew", register.ErrForgot)
		}
		q.join(ctx, r, all)
		if m := unfilled(r, all); m != nil {
			if err := q.fill(ctx, r, m, all); err != nil && !errors.Is(err, errMoved) {
				return err
			}
			continue
		}
		next, err := plan(r, all)
		if err != nil || next == nil {
			return err
		}
		if err := q.enact(ctx, r, next, all); err != nil && !errors.Is(err, errMoved) {
			return err
		}
	}
	return errors.New("the group changes all the time")
}

// unfilled returns one that has a seat and has not been filled yet: the last to be listed, since others may be filled only then.
func unfilled(r *roster, all []member) (next *member) {
	for i := range all {
		m := &all[i]
		if l, has := r.seatOf(m.memory.ID()); m.err == nil && has && !m.votes(r) && (next == nil || l.since > next.listedSince(r)) {
			next = m
		}
	}
	return next
}

// strangers returns those who answer, and have neither a seat nor a place in another group.
func strangers(r *roster, all []member) (strange []member, err error) {
	for _, m := range all {
		_, has := r.seatOf(m.memory.ID())
		switch {
		case m.err != nil || has:
		case m.roster != nil && m.roster.group != r.group:
			err = storekit.Denied("%s is of another group: empty it first (FLUSHALL)", m.Address)
		default:
			strange = append(strange, m)
		}
	}
	return strange, err
}

// heals plans that a server that has forgotten is listed with the memory that it has now.
func (q *Store) heals(r *roster, all []member) (*roster, error) {
	strange, err := strangers(r, all)
	var unknown []string
	for _, m := range strange {
		l, listed := r.seatAt(m.Address)
		switch {
		case !listed && m.wasReplaced() && allVote(r, all): // it is named only since it knew something
		case !listed:
			unknown = append(unknown, m.Address)
		case isThere(l, all): // names have been exchanged
			unknown = append(unknown, m.Address)
		default:
			return affordable(r, r.next(m.memory.ID(), m.Address, l.memory), all)
		}
	}
	if len(unknown) > 0 {
		err = errors.Join(err, storekit.Denied("the group consists of %s, and not of %s: name it as it was named when it joined, or have it take the place of another with Reform",
			r.addresses(), strings.Join(unknown, " ")))
	}
	return nil, err
}

// wasReplaced reports whether it has been told that it is of the group no more.
func (m *member) wasReplaced() bool {
	if m.roster == nil {
		return false
	}
	_, has := m.roster.seatOf(m.memory.ID())
	return !has
}

func allVote(r *roster, all []member) bool {
	votes := 0
	for _, m := range all {
		if m.votes(r) {
			votes++
		}
	}
	return votes == len(r.seats)
}

// reforms plans that a server that is named takes the place of one that is not, or comes in addition.
func (q *Store) reforms(r *roster, all []member) (*roster, error) {
	if next, err := q.heals(r, all); next != nil {
		return next, err
	}
	strange, err := strangers(r, all)
	if err != nil {
		return nil, err
	}
	silent := 0
	for _, m := range all {
		if m.err != nil {
			silent++
		}
	}
	switch {
	case len(strange) == 0 && len(q.all) < len(r.seats):
		return nil, storekit.Denied("the group consists of %d servers (%s), and a group never becomes smaller: name as many", len(r.seats), r.addresses())
	case len(strange) == 0:
		return nil, nil
	case silent > 0:
		return nil, fmt.Errorf("all that are named have to answer: %w", joinErrors(nonVoters(all)))
	}
	m, away := strange[0], ""
	for _, l := range r.seats {
		switch {
		case isThere(l, all):
		case !q.names(l.address):
			return affordable(r, r.next(m.memory.ID(), m.Address, l.memory), all)
		default: // all that are named have answered, so its name leads to another one by now
			away = l.memory
		}
	}
	if len(r.seats) >= len(q.all) && away != "" {
		return affordable(r, r.next(m.memory.ID(), m.Address, away), all)
	}
	if len(r.seats) >= len(q.all) {
		return nil, storekit.Denied("the group consists of %s: %s can take the place of none of them, since all are named", r.addresses(), m.Address)
	}
	return affordable(r, r.next(m.memory.ID(), m.Address, ""), all)
}

// affordable returns a roster if the group can go on with it while its new server is filled.
func affordable(r, next *roster, all []member) (*roster, error) {
	votes := 0
	for _, m := range all {
		if _, stays := next.seatOf(m.memory.ID()); stays && (m.votes(r) || m.lags(r)) {
			votes++
		}
	}
	if votes < next.majority() {
		return nil, fmt.Errorf("%d of %d would vote: bring the others back first: %w", votes, len(next.seats), joinErrors(nonVoters(all)))
	}
	return next, nil
}

func (q *Store) names(address string) bool {
	for _, a := range q.all {
		if cut(a.Address) == address {
			return true
		}
	}
	return false
}

// isThere reports whether a listed server has answered, under whatever name.
func isThere(l listed, all []member) bool {
	for _, m := range all {
		if m.err == nil && m.memory.ID() == l.memory {
			return true
		}
	}
	return false
}

// enact has the group decide on its next roster, and takes all that have answered there.
func (q *Store) enact(ctx context.Context, r, next *roster, all []member) error {
	id := register.NewVersion()
	decided, err := q.changeIn(ctx, r.group, rosterKey, func(now content, _ bool) (content, time.Duration) {
		if instead := afterDecision(r, decision(r.group, now), next, all); instead != nil {
			return content{id: id, version: id, value: []byte(instead.String())}, 0
		}
		return now, 0
	})
	if err != nil {
		return err
	}
	was := next
	if next = decision(r.group, decided.content); decided.content.id != id {
		if next, err = others(r, next, all); err != nil {
			return err
		}
	} else if next.term > was.term {
		q.log.Warn("redis/quorum: somebody has decided to add a server, and the group cannot go on with it as it is: that is given up", "group", next.group)
	}
	told := 0
	var errs []error
	for i := range all {
		m := &all[i]
		if !m.votes(r) && !m.lags(r) { // one that was listed and not filled must not be taken along
			continue
		}
		if err := m.move(ctx, next); err != nil {
			errs = append(errs, err)
		} else {
			told++
		}
	}
	if told < r.majority() {
		return fmt.Errorf("%d of %d have taken the next roster: %w", told, len(r.seats), joinErrors(errs))
	}
	q.log.Info("redis/quorum: the group has a new roster", "group", next.group, "term", next.term, "servers", next.addresses())
	return nil
}

// afterDecision returns what may be decided on, given what has been, or nil if that counts.
//
// That a server is added may be given up when the group cannot go on with it, since another has forgotten. Who has decided on it may yet
// wake, and have it come about. But a majority with the server that is added, and one of the roster that is decided on instead, have a
// server in common which both know, in whichever order they come about: so nothing that was agreed is lost. Of two rosters that each
// have another server in the place of one, that is not so.
func afterDecision(r, is, next *roster, all []member) *roster {
	if is == nil || is.term <= r.term {
		return next
	}
	if canBegin(r, is, all) == nil || !is.adds(r) {
		return nil
	}
	return next.in(is.term + 1)
}

// others returns a roster that somebody else has decided on. He may have come to an end long ago: if it needs servers that are away by
// now, the group goes on without it.
func others(r, next *roster, all []member) (*roster, error) {
	if next == nil || next.term <= r.term {
		return nil, errMoved
	}
	if err := canBegin(r, next, all); err != nil {
		return nil, fmt.Errorf("the group is about to consist of %s, which somebody has decided on: name these beside those that vote now: %w", next.addresses(), err)
	}
	return next, nil
}

// canBegin returns why a group could not go on by a roster that was decided on. Without a majority nobody can do anything until the new
// server is filled, so nobody plans that. But if a server has forgotten meanwhile, this is the way on.
func canBegin(r, next *roster, all []member) error {
	if _, err := affordable(r, next, all); err != nil && !isHalfway(next, all) {
		return err
	}
	return nil
}

// decision reads what stands at rosterKey.
func decision(group string, c content) *roster {
	term, seats, _ := strings.Cut(string(c.value), " ")
	return parseRoster(group, term, seats)
}

var errElseHeals = errors.New("somebody else fills it")

// fill empties a server, gives it all that the others know, and has it vote only then. If somebody else fills it too, one of them
// finds that out.
func (q *Store) fill(ctx context.Context, r *roster, m *member, all []member) error {
	nonce := register.NewVersion()
	filling := "h " + hex.EncodeToString(nonce[:])
	step := func(stands string, err error) error {
		if err == nil && !strings.HasPrefix(stands, filling) {
			err = fmt.Errorf("%s: %w", m.Address, errElseHeals)
		}
		return err
	}
	if err := step(m.enrol(ctx, "*", filling, r)); err != nil {
		return err
	}
	from, enough := sources(r, m, all, func(o *member) error { return o.move(ctx, r) })
	if len(from) < enough {
		return fmt.Errorf("%d of %d know what %s has to be given: %w", len(from), enough, m.Address, joinErrors(nonVoters(all)))
	}
	dumps, err := q.dumpIn(ctx, r, from, enough, "", true)
	if err != nil {
		return err
	}
	union, floor := unite(dumps)
	if err := q.settleOpen(ctx, r, from, enough, dumps, union); err != nil {
		return err
	}
	if err := m.wipe(ctx, filling, floor); err != nil {
		return err
	}
	for key, k := range union {
		reply, err := m.RunIn(ctx, m.memory, healScript, []string{m.Index(), q.root + key, m.key()},
			[]string{filling, k.encode(), strconv.FormatInt(k.accepted.age.Microseconds(), 10)})
		if err == nil {
			if n, _ := reply.AsInt64(); n == 2 {
				err = errElseHeals
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.Address, err)
		}
	}
	stands, err := m.enrol(ctx, filling, "v "+r.group, r)
	if err == nil && !strings.HasPrefix(stands, "v "+r.group) {
		err = fmt.Errorf("%s: %w", m.Address, errElseHeals)
	}
	if err != nil {
		return err
	}
	q.log.Info("redis/quorum: it votes", "address", m.Address, "registers", len(union))
	return nil
}

// sources returns those that one is filled from, and how many of them it takes to know all that counts: a majority of those before it was
// listed, all of which have been told that it is. That one of them is not listed any more does not matter, and without it the others may be
// too few. If that is not known, or others were listed since, it takes a majority of those who vote.
func sources(r *roster, m *member, all []member, move func(*member) error) (from []*acceptor, enough int) {
	last, ok := r.last()
	before := r.before()
	if !ok || last.memory != m.memory.ID() || before == nil {
		for _, o := range all {
			if o.votes(r) {
				from = append(from, o.asItWas())
			}
		}
		return from, r.majority()
	}
	for i := range all {
		if o := &all[i]; o.wasBefore(r) && (o.roster.term == r.term || move(o) == nil) {
			from = append(from, o.asItWas())
		}
	}
	return from, before.majority()
}

// settleOpen proposes anew what was accepted by some of those that one is filled from, while somebody has the promise of a higher ballot.
// Who has that may not know of it. With one more that has accepted it, it would count, and be undone when he goes on. So they promise a
// still higher one, and what is to be proposed then is accepted by the new one alone: nobody else need do so now.
//
// They are asked as well where one of them has something strange. If no majority knows what was there, nobody will: then it becomes
// strange on the new one, which might otherwise say that there was nothing.
func (q *Store) settleOpen(ctx context.Context, r *roster, from []*acceptor, enough int, dumps []dump, union map[string]kept) error {
	for key, k := range union {
		if !k.strange && !isOpen(dumps, key, k) {
			continue
		}
		a, err := q.takeOver(ctx, r, from, enough, key)
		switch {
		case err == nil:
			union[key] = k.after(a)
		case !k.strange || ctx.Err() != nil:
			return err
		default:
			q.log.Warn("redis/quorum: nobody knows what was there: remove it on all servers", "key", q.root+key, "err", err)
		}
	}
	return nil
}

// takeOver has so many of some acceptors promise a ballot of ours, and returns what is to be proposed with that.
func (q *Store) takeOver(ctx context.Context, r *roster, from []*acceptor, enough int, key string) (a accepted, err error) {
	var above ballot
	for range 20 {
		ours := newBallot(above.count + 1000) // one of its own for each round: who is late in one still reads it
		votes, err := q.pollIn(ctx, from, enough, func(ctx context.Context, a *acceptor) vote {
			return a.ask(ctx, r, prepareScript, key, ours.String())
		})
		switch {
		case err == nil:
			a = latest(votes.yes)
			a.ballot = ours
			return a, nil
		case votes.moved:
			return a, errMoved
		case err != errRefused:
			return a, err
		}
		above = ours
		if higher := votes.toExceed(enough); above.less(higher) {
			above = higher
		}
	}
	return a, errRefused
}

// isOpen reports whether what the union of dumps has accepted may not count, and somebody may go on without knowing of it: one of the
// dumps has promised a higher ballot, and not accepted it. That ballot may be lower than the one which comes with what was accepted.
func isOpen(dumps []dump, key string, u kept) bool {
	return slices.ContainsFunc(dumps, func(d dump) bool {
		return d.kept[key].accepted.ballot != u.accepted.ballot && u.accepted.ballot.less(d.kept[key].promised)
	})
}

// after is what is kept once a majority has accepted a.
func (k kept) after(a accepted) kept {
	if next := a.ballot.next(); k.promised.less(next) {
		k.promised = next
	}
	k.accepted, k.strange = a, false
	return k
}

// wipe removes all registers of a server that is to be filled: what it alone has counts for nothing.
func (m *member) wipe(ctx context.Context, filling string, floor ballot) error {
	for {
		reply, err := m.RunIn(ctx, m.memory, wipeScript, []string{m.Index(), m.key(), m.floor()}, []string{filling, floor.String()})
		if err != nil {
			return fmt.Errorf("%s: %w", m.Address, err)
		}
		answer, err := reply.AsIntSlice()
		switch {
		case err != nil || len(answer) != 1 || answer[0] == 2:
			return fmt.Errorf("%s: %w", m.Address, cmp.Or(err, errElseHeals))
		case answer[0] == 0:
			return nil
		}
	}
}

// unite returns the highest promise and the latest content for each register: what counted is known to one of a majority. The floor is
// the highest, but no higher than one comes by itself: what somebody has written to one server is not to be said by two.
func unite(dumps []dump) (union map[string]kept, floor ballot) {
	union = make(map[string]kept)
	for _, d := range dumps {
		if floor.less(d.floor) {
			floor = d.floor
		}
		for key, k := range d.kept {
			u := union[key]
			if k.strange {
				u.strange = true
				union[key] = u
				continue
			}
			if u.promised.less(k.promised) {
				u.promised = k.promised
			}
			if u.accepted.ballot.less(k.accepted.ballot) {
				u.accepted = k.accepted
			}
			union[key] = u
		}
	}
	if !floor.isLikely() {
		floor = firstUnlikely
	}
	return union, floor
}
