package quorum

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// survey asks all acceptors for their membership, until enough says that it has heard enough. The others are not waited for:
// a server that is frozen would hold up everybody.
func (q *Store) survey(ctx context.Context, enough func([]member) bool) ([]member, error) {
	answers := make(chan member, len(q.all))
	for _, a := range q.all {
		if !q.life.Go(func() { answers <- q.membership(a) }) {
			return nil, storekit.ErrClosed
		}
	}
	var all []member
	for len(all) < len(q.all) && !enough(all) {
		select {
		case m := <-answers:
			all = append(all, m)
		case <-ctx.Done():
			return all, ctx.Err()
		}
	}
	return all, nil
}

// surveyAll asks all acceptors once more, after a survey that has begun at that time. Whoever takes much longer than those did is
// not waited for.
func (q *Store) surveyAll(ctx context.Context, begun time.Time) []member {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond+3*time.Since(begun))
	defer cancel()
	all, _ := q.survey(ctx, func([]member) bool { return false })
	return all
}

// membershipFor is how long an acceptor may take to say what it is. It is asked on no caller's ctx: it is checked first, and
// what is found out then is for all.
const membershipFor = 5 * time.Second

func (q *Store) membership(a *acceptor) member {
	ctx, cancel := context.WithTimeout(q.life.Context(), membershipFor)
	defer cancel()
	return a.membership(ctx)
}

// newGroup returns the name of a new group.
func newGroup() string {
	name := register.NewVersion()
	return hex.EncodeToString(name[:])
}

// rosterOf returns the latest roster that any of them knows, of a group that a majority is in: nil if there is none. Once the
// servers of an earlier one cannot agree without it, one of each majority knows the later one. So what is returned is either what
// counts, or what has been decided on and is about to.
func rosterOf(all []member) *roster {
	if groups := groupsOf(all); len(groups) > 0 {
		return groups[0]
	}
	return nil
}

// latestOf returns the latest roster of each group that any of them knows.
func latestOf(all []member) map[string]*roster {
	latest := make(map[string]*roster)
	for _, m := range all {
		if m.err == nil && m.roster != nil && (latest[m.roster.group] == nil || latest[m.roster.group].term < m.roster.term) {
			latest[m.roster.group] = m.roster
		}
	}
	return latest
}

// groupsOf returns such a roster for each group.
func groupsOf(all []member) (groups []*roster) {
	for _, r := range latestOf(all) {
		servers := make(map[string]bool) // by their memories: two names may lead to one
		for _, m := range all {
			if m.votes(r) || m.lags(r) {
				servers[m.memory.ID()] = true
			}
		}
		if len(servers) >= r.majority() {
			groups = append(groups, r)
		}
	}
	return groups
}

// halfwayOf returns a roster of which no majority votes, but would as soon as the server is filled that was listed last: nil if there is none.
func halfwayOf(all []member) *roster {
	for _, r := range latestOf(all) {
		if isHalfway(r, all) {
			return r
		}
	}
	return nil
}

// isHalfway reports whether the server that was listed last on a roster can be filled: it is there, and those who know what it has to be
// given are.
func isHalfway(r *roster, all []member) bool {
	last, ok := r.last()
	if !ok || !slices.ContainsFunc(all, func(m member) bool { return m.err == nil && m.memory.ID() == last.memory && !m.votes(r) }) {
		return false
	}
	return knowAllBefore(r, all)
}

// knowAllBefore reports whether they know all that was agreed before a roster, and no others can agree by one before it any more, once
// they have been told.
func knowAllBefore(r *roster, all []member) bool {
	servers := make(map[string]bool)
	for _, m := range all {
		if m.wasBefore(r) {
			servers[m.memory.ID()] = true
		}
	}
	before := r.before()
	return before != nil && len(servers) >= before.majority()
}

// unnamed returns an error that says what to do if a group waits for a server to be filled that is not there, or not named.
func unnamed(all []member) error {
	for _, r := range latestOf(all) {
		last, ok := r.last()
		if ok && knowAllBefore(r, all) && !slices.ContainsFunc(all, func(m member) bool { return m.err == nil && cut(m.Address) == last.address }) {
			return fmt.Errorf("the group has begun to take in %s, and goes on when that is filled: bring it back, name it beside these, and call Heal", last.address)
		}
	}
	return nil
}

func isMajority(all []member) bool { return rosterOf(all) != nil }

// assemble finds the group that the acceptors belong to, or founds one.
func (q *Store) assemble(ctx context.Context) error {
	begun := time.Now()
	all, err := q.survey(ctx, isMajority)
	if err == nil && len(all) < len(q.all) {
		// Two names of one server answer at almost the same time.
		if more := q.surveyAll(ctx, begun); len(more) > len(all) {
			all = more
		}
	}
	if err := unfit(all); err != nil {
		return err
	}
	if groups := groupsOf(all); len(groups) > 1 { // one process would go by this one, and the next by that
		return storekit.Denied("they are of two groups, %s and %s: name the servers of one", groups[0].addresses(), groups[1].addresses())
	}
	if r := rosterOf(all); r != nil {
		q.join(ctx, r, all)
		q.compare(r, all)
		return nil
	}
	if r := halfwayOf(all); r != nil {
		q.log.Error("redis/quorum: no majority votes until a server is filled that the group has begun to take in: call Heal", "group", r.addresses())
		q.join(ctx, r, all)
		return nil
	}
	if r, enrolled := broken(all); r != nil {
		return q.finish(ctx, r, enrolled)
	}
	silent := nonVoters(all)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", err, joinErrors(silent))
	case !slices.ContainsFunc(all, func(m member) bool { return m.err != nil || m.roster != nil }):
		return q.found(ctx, all)
	}
	for _, m := range all {
		if m.roster != nil && m.roster.majority() > len(q.all) {
			return storekit.Denied("they are of a group of %d servers, and %d are named: name more than half of them, and better all", len(m.roster.seats), len(q.all))
		}
	}
	if err := unnamed(all); err != nil {
		return err
	}
	return fmt.Errorf("%d of %d can vote: %w", len(all)-len(silent), len(q.all), joinErrors(silent))
}

// compare says which servers are named and have no say, or the other way round.
func (q *Store) compare(r *roster, all []member) {
	for _, m := range all {
		if _, has := r.seatOf(m.memory.ID()); m.err == nil && !has {
			q.log.Warn("redis/quorum: a server is named that is not of the group, or has forgotten its votes: it does not vote. Heal or Reform has it vote",
				"address", m.Address, "group", r.addresses())
		}
	}
	if len(q.all) < len(r.seats) {
		q.log.Warn("redis/quorum: the group has more servers than are named: name them all", "named", len(q.all), "group", r.addresses())
	}
}

// unfit returns why these can make no quorum, however long somebody waits.
func unfit(all []member) error {
	for _, m := range all {
		if storekit.IsLasting(server.AtOpening(m.err)) {
			return m.err
		}
	}
	return twins(all)
}

// twins returns an error if two of them are one server.
func twins(all []member) error {
	for i, m := range all {
		for _, o := range all[:i] { // with two votes of its own, one server could outvote another
			if m.err == nil && o.err == nil && o.memory.IsBeside(m.memory) {
				return fmt.Errorf("%s and %s lead to one Redis: %w", o.Address, m.Address, driver.ErrDenied)
			}
		}
	}
	return nil
}

// nonVoters returns what keeps each of those from voting that do not.
func nonVoters(all []member) (why []error) {
	for _, m := range all {
		switch {
		case m.err != nil:
			why = append(why, m.err)
		case m.begun != "":
			why = append(why, fmt.Errorf("%s: %w", m.Address, errBegun))
		case m.roster == nil:
			why = append(why, fmt.Errorf("%s: %w", m.Address, errNoVote))
		}
	}
	return why
}

// join goes by a roster from now on, and lets those acceptors vote that have a seat there. Who is in an earlier term is told. Those
// that have not answered are looked at later.
func (q *Store) join(ctx context.Context, r *roster, all []member) {
	for i := range all {
		if all[i].lags(r) {
			all[i].err = all[i].move(ctx, r)
		}
	}
	q.adopt(r)
	for _, m := range all {
		q.seat(m)
	}
	for _, a := range q.all {
		if !a.seat.isTaken() {
			q.lookAgain(a) // perhaps it has not answered yet
		}
	}
}

// adopt goes by a roster. Nobody votes by another one any more.
func (q *Store) adopt(r *roster) {
	q.seating.Lock()
	defer q.seating.Unlock()
	was := q.roster.Load()
	if was != nil && was.group == r.group && was.term >= r.term {
		return
	}
	for _, a := range q.all {
		a.seat.leave()
	}
	q.roster.Store(r)
}

// inTerm does something in the present term, and again in the next one if it turns out that the group has moved on.
func (q *Store) inTerm(ctx context.Context, do func(r *roster, again bool) (moved bool, err error)) error {
	for tries := 0; ; tries++ {
		r := q.roster.Load()
		moved, err := do(r, tries > 0)
		if !moved || tries == 3 {
			return err
		}
		if err := q.follow(ctx, r); err != nil {
			return err
		}
	}
}

// follow finds out which roster counts after was.
func (q *Store) follow(ctx context.Context, was *roster) error {
	select {
	case q.following <- struct{}{}:
		defer func() { <-q.following }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if q.roster.Load() != was {
		return nil
	}
	all, err := q.survey(ctx, isMajority)
	r := rosterOf(all)
	switch {
	case r == nil && err == nil:
		return fmt.Errorf("%w: %w", errMoved, joinErrors(nonVoters(all)))
	case r == nil:
		return err
	case r.group != was.group:
		q.forgot.Store(true)
		return register.ErrForgot
	}
	q.join(ctx, r, all)
	return nil
}

// seat lets an acceptor vote that does so in our term, unless another one has the same memory: then both names lead to one server,
// and its vote would count twice. Each vote is bound to the memory of its seat, so all votes are those of different servers.
func (q *Store) seat(m member) {
	q.seating.Lock()
	defer q.seating.Unlock()
	switch {
	case m.err != nil:
		return
	case !m.votes(q.roster.Load()):
		if r := q.roster.Load(); m.roster == nil || m.roster.group != r.group || m.roster.term >= r.term { // otherwise it said that a while ago
			m.seat.leave()
		}
		return
	}
	for _, a := range q.all {
		if other, err := a.seat.Current(); a != m.acceptor && err == nil && other.ID() == m.memory.ID() {
			m.seat.leave()
			if m.seat.twin != a {
				m.seat.twin = a
				q.log.Error("redis/quorum: two names lead to one server, which votes only once", "address", a.Address, "and", m.Address)
			}
			return
		}
	}
	m.seat.twin, m.seat.foreign = nil, ""
	m.seat.take(m.memory)
}

// found founds a group of acceptors none of which votes. Each is enrolled first, and votes only when all are. So an acceptor
// that is not enrolled while another votes has forgotten that it was. Processes that found a group at the same time begin
// with the same acceptor.
func (q *Store) found(ctx context.Context, all []member) error {
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.memory.ID(), b.memory.ID()) })
	first := &roster{group: newGroup(), term: 1}
	for _, m := range all {
		first.seats = append(first.seats, listed{memory: m.memory.ID(), since: first.term, address: cut(m.Address)})
	}
	stands, err := all[0].enrol(ctx, "", "f "+first.group, first)
	if err != nil {
		return err
	}
	f := strings.Fields(stands)
	if len(f) != 6 || f[0] != "f" {
		return errors.New("it is being founded by somebody else")
	}
	group := f[1]
	if theirs := parseRoster(group, f[4], f[5]); first.isOf(theirs) { // ours, or that of who was first
		first = theirs
	} else { // some have forgotten since, or somebody names others
		_, err := all[0].enrol(ctx, "f "+group, "f "+first.group, first)
		return cmp.Or(err, errors.New("somebody else has begun to found a group of other servers with it"))
	}
	for _, m := range all {
		if err := m.enlist(ctx, "*", "f "+group, first); err != nil {
			return err
		}
	}
	return q.finish(ctx, first, all)
}

// finish has all vote that are enrolled.
func (q *Store) finish(ctx context.Context, first *roster, enrolled []member) error {
	for _, m := range enrolled {
		if err := m.enlist(ctx, "f "+first.group, "v "+first.group, first); err != nil {
			return err
		}
	}
	q.log.Info("redis/quorum: a group is founded", "group", first.group)
	return errors.New("it was founded just now") // and assembles at the next try
}

// enlist is a step of a founding.
func (m *member) enlist(ctx context.Context, before, after string, first *roster) error {
	stands, err := m.enrol(ctx, before, after, first)
	if err == nil && !strings.HasPrefix(stands, after) && !strings.HasPrefix(stands, "v "+first.group) {
		err = errors.New("it is being founded by somebody else")
	}
	return err
}

// broken returns the first roster of a group whose founder came to an end when only some voted, and those that are enrolled. They have
// forgotten nothing since, and have never voted. All have to be there: one that is away may be enrolled in another group that is founded
// now, by somebody who names other servers. Then each group might go on with those that it has got.
func broken(all []member) (first *roster, enrolled []member) {
	for _, m := range all {
		if m.err != nil || m.roster == nil || m.roster.term != 1 {
			continue
		}
		enrolled, voting := []member(nil), 0
		for _, o := range all {
			switch {
			case o.err == nil && o.begun == m.roster.group && o.listedSince(m.roster) == 1:
				enrolled = append(enrolled, o)
			case o.votes(m.roster):
				voting++
			}
		}
		if len(enrolled) > 0 && len(enrolled)+voting == len(m.roster.seats) {
			return m.roster, enrolled
		}
	}
	return nil, nil
}

// lookAgain looks, at most once a second, whether an acceptor that did not vote does so now.
func (q *Store) lookAgain(a *acceptor) {
	if !slices.Contains(q.all, a) { // it stands for a memory that one of them had
		return
	}
	over, ok := a.beginLook()
	if !ok {
		return
	}
	if !q.life.Go(func() { defer over(); q.readmit(q.membership(a)) }) {
		over()
	}
}

// readmit lets an acceptor vote that is a member of our group.
func (q *Store) readmit(m member) {
	r := q.roster.Load()
	switch {
	case m.err != nil || m.roster == nil:
	case m.roster.group == r.group:
		ctx, cancel := context.WithTimeout(q.life.Context(), membershipFor)
		defer cancel()
		switch {
		case m.roster.term > r.term:
			_ = q.follow(ctx, r) // or whoever needs a vote next
		case m.lags(r):
			m.err = m.move(ctx, r)
		}
		q.seat(m)
	case !q.isSeated(): // another group is founded only when a majority has forgotten all
		q.forgot.Store(true)
	default: // the name leads to somebody else's server
		q.seating.Lock()
		defer q.seating.Unlock()
		if m.seat.foreign != m.roster.group { // it is looked at each second
			m.seat.foreign = m.roster.group
			q.log.Error("redis/quorum: it belongs to another group, and has no vote here", "address", m.Address)
		}
	}
}

// isSeated reports whether a majority votes in our group, as far as we know. Those who have forgotten since lose their seats when they
// are asked.
func (q *Store) isSeated() bool {
	seats := 0
	for _, a := range q.all {
		if a.seat.isTaken() {
			seats++
		}
	}
	return seats >= q.roster.Load().majority()
}
