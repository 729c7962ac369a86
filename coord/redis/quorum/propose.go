package quorum

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// An edit says what is to stand in a register, given what is there. It returns content with the same id to leave that as it
// is. tried says that an earlier round may have had its edit accepted already. If the edit also returns a time, nobody else
// is to disturb the register for that long.
type edit func(now content, tried bool) (_ content, reserve time.Duration)

// A proposal gets an edit of one register agreed upon, in as many rounds as it takes.
type proposal struct {
	q    *Store
	key  string
	edit edit
	turn *turn

	group string // another one has not promised us anything
	last  ballot // of what somebody may have accepted from us; zero: nobody has
}

// change runs rounds until a majority has accepted what an edit makes of what is there.
func (q *Store) change(ctx context.Context, key string, e edit) (accepted, error) {
	return q.changeIn(ctx, q.roster.Load().group, key, e)
}

// changeIn is change in a certain group, or not at all.
func (q *Store) changeIn(ctx context.Context, group, key string, e edit) (accepted, error) {
	p := &proposal{q: q, key: key, edit: e, turn: q.referee(key), group: group}
	defer p.turn.end()
	for {
		settled, err := p.round(ctx)
		if err != nil {
			return accepted{}, err
		}
		if settled != nil {
			return *settled, nil
		}
	}
}

func (p *proposal) tried() bool { return p.last != ballot{} }

// poll asks the group that the proposal is for.
func (p *proposal) poll(ctx context.Context, ask func(context.Context, *roster, *acceptor) vote) (tally, error) {
	return p.q.poll(ctx, func(ctx context.Context, r *roster, a *acceptor) vote {
		if r.group != p.group {
			return vote{from: a, err: errAnew}
		}
		return ask(ctx, r, a)
	})
}

// round proposes once. It returns nothing if another proposer disturbed the round, and it is our turn to try again.
func (p *proposal) round(ctx context.Context) (*accepted, error) {
	q := p.q
	at, now, ok := q.ledger.take(p.key, p.group)
	if !ok {
		// Well above the others' ballots: a quick proposer goes on while we ask.
		at = newBallot(at.count + 1000)
		votes, err := p.poll(ctx, func(ctx context.Context, r *roster, a *acceptor) vote {
			return a.ask(ctx, r, prepareScript, p.key, at.String())
		})
		if err != nil {
			return p.refused(ctx, at, votes.toExceed(q.roster.Load().majority()), err)
		}
		now = latest(votes.yes)
	}
	next, reserve := p.edit(now.content, p.tried())
	proposed := accepted{ballot: at, content: next}
	if next.id == now.content.id {
		proposed.age = now.age
	}
	votes, err := p.poll(ctx, q.accept(p.key, proposed))
	if err == nil {
		q.ledger.put(p.key, promised{at.next(), proposed, time.Now(), p.group})
		p.turn.reserve = reserve
		return &proposed, nil
	}
	if !votes.isVain() {
		p.last = at
	}
	return p.refused(ctx, at, votes.toExceed(q.roster.Load().majority()), err)
}

// refused is called after a round has failed. If the edit leaves what there is now as it is, refused returns that: there is
// nothing to try. Otherwise it waits for our turn.
func (p *proposal) refused(ctx context.Context, at, higher ballot, err error) (*accepted, error) {
	if at.less(higher) {
		at = higher
	}
	p.q.ledger.put(p.key, promised{ballot: at})
	if err != errRefused {
		return nil, err
	}
	// Looking disturbs nobody. What a majority has accepted above our last proposal has outlived that.
	for range 5 {
		votes, err := p.q.look(ctx, p.key)
		if err != nil {
			break
		}
		if agree(votes) && (!p.tried() || p.last.less(votes[0].accepted.ballot)) {
			now := latest(votes)
			if next, reserve := p.edit(now.content, p.tried()); next.id == now.content.id {
				p.turn.reserve = reserve
				return &now, nil
			}
			break
		}
		if !p.tried() {
			break // there is nothing to find out before others have gone too far
		}
	}
	return nil, p.turn.take(ctx)
}

// look asks what acceptors have accepted.
func (q *Store) look(ctx context.Context, key string) ([]vote, error) {
	votes, err := q.poll(ctx, func(ctx context.Context, r *roster, a *acceptor) vote {
		return a.ask(ctx, r, lookScript, key)
	})
	return votes.yes, err
}

// accept returns how to ask an acceptor to accept something. Each publishes the notes itself, on channels of its own.
func (q *Store) accept(key string, p accepted) func(context.Context, *roster, *acceptor) vote {
	args := []string{p.ballot.String(), p.ballot.next().String(), strconv.FormatInt(p.age.Microseconds(), 10), p.content.encode()}
	return func(ctx context.Context, r *roster, a *acceptor) vote {
		args := slices.Clip(args)
		for i, n := range p.content.notes {
			args = append(args, a.Channel(n.Topic), tag(p, r.term, key, i)+string(n.Text))
		}
		return a.ask(ctx, r, acceptScript, key, args...)
	}
}

// settle returns what the votes of a majority agree on. If they do not, it makes a majority agree first.
func (q *Store) settle(ctx context.Context, key string, votes []vote) (accepted, error) {
	if !agree(votes) {
		return q.rewrite(ctx, key)
	}
	return latest(votes), nil
}

// rewrite makes a majority agree on what stands in a register.
func (q *Store) rewrite(ctx context.Context, key string) (accepted, error) {
	return q.change(ctx, key, func(now content, _ bool) (content, time.Duration) { return now, 0 })
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

// agree reports whether all have accepted the same. Then that is what stands, and nothing has to be written back.
func agree(votes []vote) bool {
	for _, v := range votes {
		if v.accepted.ballot != votes[0].accepted.ballot {
			return false
		}
	}
	return true
}
