package quorum

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
)

const (
	collectSoon  = 5 * time.Second // after a process has come: it may be as short-lived as all the others
	collectEvery = 10 * time.Minute
	collectMost  = 10_000 // at a time

	// collectAfter is longer than any request may be late; see register.Store.
	collectAfter = time.Hour + 5*time.Minute
)

// collect has the servers forget registers that have gone, now and then: each session that ever was leaves one. One process
// does that at a time.
func (q *Store) collect() {
	for pause := collectSoon; driverkit.Sleep(q.life.Context(), driverkit.Jitter(pause)) == nil; pause = collectEvery {
		ctx, cancel := context.WithTimeout(q.life.Context(), collectEvery)
		if q.mayCollect(ctx) {
			_ = q.collectAll(ctx, collectAfter) // who cannot now does so the next time
		}
		cancel()
	}
}

func (q *Store) mayCollect(ctx context.Context) bool {
	for _, a := range q.all {
		if a.seat.isTaken() {
			all := &turn{q: q} // it is nobody's register
			n, err := all.ask(ctx, a, turnScript, strconv.FormatInt((collectEvery*3/4).Milliseconds(), 10))
			return err == nil && n == 1
		}
	}
	return false
}

var errNotAll = errors.New("a server does not vote")

// collectAll has all servers forget what has gone, until little is left: what goes may be more than is forgotten at a time.
func (q *Store) collectAll(ctx context.Context, after time.Duration) error {
	for {
		if n, err := q.collectOnce(ctx, after); err != nil || n < collectMost/2 {
			return err
		}
	}
}

// collectOnce has all servers forget those registers of which each says the same: that it has gone, at the same ballot, and that
// nobody has been promised anything since. With one that says something else, the others' silence could make something count
// that did not.
//
// If it ends in between, some have forgotten and others have not. That does no harm: who begins the register anew does so with a
// ballot above all that was promised there; see newVote.
func (q *Store) collectOnce(ctx context.Context, after time.Duration) (forgotten int, err error) {
	err = q.inTerm(ctx, func(r *roster, _ bool) (moved bool, err error) {
		n, err := q.collectIn(ctx, r, after)
		forgotten += n
		return errors.Is(err, errMoved), err
	})
	return forgotten, err
}

// collectIn is collectOnce in one term. A process that asks for nothing else has to look who votes.
func (q *Store) collectIn(ctx context.Context, r *roster, after time.Duration) (forgotten int, err error) {
	var all []*acceptor
	for _, a := range q.all {
		if !a.seat.isTaken() {
			q.lookAgain(a)
		}
		if a.votes(ctx) {
			all = append(all, a)
		}
	}
	if len(all) < len(r.seats) {
		return 0, errNotAll
	}
	agreed, open, err := compareGone(ctx, r, all, after)
	if err != nil {
		return 0, err
	}
	for key, ballot := range agreed {
		for _, a := range all {
			if err := a.forget(ctx, r, key, ballot, after); err != nil {
				return forgotten, err
			}
		}
		forgotten++
	}
	for key := range open { // the next time they say the same
		if _, err := q.rewrite(ctx, key); err != nil {
			return forgotten, err
		}
	}
	return forgotten, nil
}

// nothing is the ballot at which a register has gone that was only promised: whoever asked for that has not come back yet.
var nothing = ballot{}.String()

// compareGone returns which registers have gone for all, with their ballots, and which have for some. A server that was away for a while,
// or a collection that was broken off, leaves some of those, and so does whoever was promised a register and came to an end. Nobody else
// asks for them.
func compareGone(ctx context.Context, r *roster, all []*acceptor, after time.Duration) (agreed map[string]string, open map[string]bool, err error) {
	agreed, open = make(map[string]string), make(map[string]bool)
	says := make(map[string]int)
	end := ""
	for i, a := range all {
		gone, upTo, err := a.gone(ctx, r, after)
		if err != nil {
			return nil, nil, err
		}
		if upTo != "" && (end == "" || upTo < end) {
			end = upTo
		}
		for key, ballot := range gone {
			open[key] = true
			if ballot == nothing {
				continue
			}
			if i == 0 {
				agreed[key] = ballot
			}
			if agreed[key] == ballot {
				says[key]++
			}
		}
	}
	for key := range open {
		if says[key] < len(all) {
			delete(agreed, key)
		}
		if says[key] == len(all) || end != "" && key > end {
			delete(open, key)
		}
	}
	return agreed, open, nil
}

// gone returns registers that have gone, with their ballots: the first ones, by their names. upTo is the last one that it looked at;
// empty: there are no more.
func (a *acceptor) gone(ctx context.Context, r *roster, after time.Duration) (gone map[string]string, upTo string, err error) {
	gone = make(map[string]string)
	for from := ""; len(gone) < collectMost; {
		reply, err := a.inTerm(ctx, r, goneScript, "", from, strconv.FormatInt(after.Microseconds(), 10))
		if err != nil {
			return nil, "", err
		}
		page, err := reply.ToArray()
		if err != nil || len(page)%2 != 1 {
			return nil, "", server.ErrStrange
		}
		for i := 1; i < len(page); i += 2 {
			key, err1 := page[i].ToString()
			ballot, err2 := page[i+1].ToString()
			if err := errors.Join(err1, err2); err != nil {
				return nil, "", err
			}
			if key, ok := strings.CutPrefix(key, a.Root); ok {
				gone[key] = ballot
			}
		}
		if page[0].IsNil() {
			return gone, "", nil
		}
		if from, err = page[0].ToString(); err != nil {
			return nil, "", err
		}
		upTo = strings.TrimPrefix(from, a.Root)
	}
	return gone, upTo, nil
}

// forget has the acceptor forget a register that has gone at a ballot.
func (a *acceptor) forget(ctx context.Context, r *roster, key, ballot string, after time.Duration) error {
	_, err := a.inTerm(ctx, r, forgetScript, key, ballot, strconv.FormatInt(after.Microseconds(), 10))
	return err
}
