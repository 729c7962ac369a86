package quorum

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// membershipFor is how long an acceptor may take to say what it is. It is asked on no caller's ctx: it is checked first, and
// what is found out then is for all.
const membershipFor = 5 * time.Second

func (q *Store) membership(a *acceptor) member {
	ctx, cancel := context.WithTimeout(q.life.Context(), membershipFor)
	defer cancel()
	return a.membership(ctx)
}

// newGroup returns the name of a new group. It ends with how many servers the group has: whoever names more or fewer has
// majorities that need not meet those of others.
func newGroup(servers int) string {
	name := register.NewVersion()
	return hex.EncodeToString(name[:])[:groupSize-1] + strconv.Itoa(servers)
}

const (
	groupSize  = 16
	maxServers = 9 // a digit
)

// fits refuses a group that has not as many servers as are named here.
func (q *Store) fits(group string) error {
	if has := group[len(group)-1:]; has != strconv.Itoa(len(q.all)) {
		return storekit.Denied("they are a group of %.1q servers, and %d are named: all processes have to name the same", has, len(q.all))
	}
	return nil
}

// groupOf returns the group that a majority votes in, if any.
func (q *Store) groupOf(all []member) (group string) {
	servers := make(map[string]map[string]bool) // by their memories: two names may lead to one
	for _, m := range all {
		if m.err != nil || m.group == "" {
			continue
		}
		if servers[m.group] == nil {
			servers[m.group] = make(map[string]bool)
		}
		if servers[m.group][m.memory.ID()] = true; len(servers[m.group]) >= q.majority() {
			return m.group
		}
	}
	return ""
}

// assemble finds the group that the acceptors belong to, or founds one.
func (q *Store) assemble(ctx context.Context) error {
	begun := time.Now()
	all, err := q.survey(ctx, func(all []member) bool { return q.groupOf(all) != "" })
	if err == nil && len(all) < len(q.all) {
		// Two names of one server answer at almost the same time.
		rest, cancel := context.WithTimeout(ctx, 50*time.Millisecond+3*time.Since(begun))
		if more, _ := q.survey(rest, func([]member) bool { return false }); len(more) > len(all) {
			all = more
		}
		cancel()
	}
	if err := unfit(all); err != nil {
		return err
	}
	if group := q.groupOf(all); group != "" {
		if err := q.fits(group); err != nil {
			return err
		}
		q.join(group, all)
		return nil
	}
	silent := nonVoters(all)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", err, together(silent))
	case !slices.ContainsFunc(all, func(m member) bool { return m.err != nil || m.group != "" }):
		return q.found(ctx, all)
	}
	return fmt.Errorf("%d of %d can vote: %w", len(all)-len(silent), len(q.all), together(silent))
}

// unfit returns why these can make no quorum, however long somebody waits.
func unfit(all []member) error {
	for i, m := range all {
		if errors.Is(server.AtOpening(m.err), driver.ErrDenied) {
			return m.err
		}
		for _, o := range all[:i] { // with two votes of its own, one server could outvote another
			if m.err == nil && o.err == nil && o.memory.ID() == m.memory.ID() {
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
		case m.group == "":
			why = append(why, fmt.Errorf("%s: %w", m.Address, errNoVote))
		}
	}
	return why
}

// join lets those acceptors vote that are members of the group. Those that have not answered go on as they were.
func (q *Store) join(group string, all []member) {
	if was := q.group.Swap(&group); was == nil || *was != group {
		for _, a := range q.all {
			a.seat.leave()
		}
	}
	for _, m := range all {
		switch {
		case m.err != nil:
		case m.group == group:
			q.seat(m)
		default:
			m.seat.leave()
		}
	}
	for _, a := range q.all {
		if !a.seat.isTaken() {
			q.lookAgain(a) // perhaps it has not answered yet
		}
	}
}

// seat lets an acceptor vote, unless another one has the same memory: then both names lead to one server, and its vote would
// count twice. Each vote is bound to the memory of its seat, so all votes are those of different servers.
func (q *Store) seat(m member) {
	q.seating.Lock()
	defer q.seating.Unlock()
	for _, a := range q.all {
		if other, err := a.seat.Memory(); a != m.acceptor && err == nil && other.ID() == m.memory.ID() {
			m.seat.leave()
			if m.seat.twin != a {
				m.seat.twin = a
				q.log.Error("redis/quorum: two names lead to one server, which votes only once", "address", a.Address, "and", m.Address)
			}
			return
		}
	}
	m.seat.twin = nil
	m.seat.take(m.memory)
}

// found founds a group of acceptors none of which votes. Each is enrolled first, and votes only when all are. So an acceptor
// that is not enrolled while another votes has forgotten that it was. Processes that found a group at the same time begin
// with the same acceptor.
func (q *Store) found(ctx context.Context, all []member) error {
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.memory.ID(), b.memory.ID()) })
	stands, err := all[0].enrol(ctx, "", "f "+newGroup(len(all)))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(stands, "f ") || len(stands) < 2+groupSize {
		return errors.New("it is being founded by somebody else")
	}
	group := stands[2 : 2+groupSize] // ours, or that of who was first
	if err := q.fits(group); err != nil {
		return err
	}
	for _, step := range []struct{ before, after string }{{"*", "f " + group}, {"f " + group, "v " + group}} {
		for _, m := range all {
			stands, err := m.enrol(ctx, step.before, step.after)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(stands, step.after) && !strings.HasPrefix(stands, "v "+group) {
				return errors.New("it is being founded by somebody else")
			}
		}
	}
	q.log.Info("redis/quorum: a group is founded", "group", group)
	return errors.New("it was founded just now") // and assembles at the next try
}

// lookAgain looks, at most once a second, whether an acceptor that did not vote does so now.
func (q *Store) lookAgain(a *acceptor) {
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
	switch {
	case m.err != nil || m.group == "":
	case m.group == *q.group.Load():
		q.seat(m)
	case !q.isSeated(): // another group is founded only when a majority has forgotten all
		q.forgot.Store(true)
	default: // the name leads to somebody else's server
		q.log.Error("redis/quorum: it belongs to another group, and has no vote here", "address", m.Address)
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
	return seats >= q.majority()
}
