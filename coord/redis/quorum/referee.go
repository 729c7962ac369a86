package quorum

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
)

// A turn is the right to disturb others at a register, given by one of the acceptors. It decides nothing: it saves
// proposers from disturbing each other again and again.
type turn struct {
	q       *Store
	key     string
	referee *acceptor     // nil: we do not have it
	reserve time.Duration // keep it for that long
}

// referee returns the turn of a key, which is ours only if it was reserved.
func (q *Store) referee(key string) *turn {
	return &turn{q: q, key: key, referee: q.ledger.takeTurn(key)}
}

// take waits for the turn, but not for ever: whoever has it may have died.
func (t *turn) take(ctx context.Context) error {
	usual := t.q.usual()
	if t.referee != nil { // somebody disturbs us without a turn
		return driverkit.Sleep(ctx, rand.N(usual))
	}
	for i := range t.q.all { // all processes begin with the same one
		a := t.acceptor(i)
		if !a.seat.isTaken() || a.isBusy() {
			continue
		}
		// Whoever has it may be slow: after a while we go on without, and disturb others.
		for limit := time.Now().Add(max(50*usual, 100*time.Millisecond)); time.Now().Before(limit); {
			asked, cancel := context.WithTimeout(ctx, 4*usual+50*time.Millisecond)
			n, err := t.ask(asked, a, turnScript, strconv.FormatInt(max(5, 10*usual.Milliseconds()), 10))
			cancel()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				break
			}
			if n == 1 {
				t.referee = a
				return nil
			}
			if err := driverkit.Sleep(ctx, usual/2+rand.N(usual)); err != nil {
				return err
			}
		}
		return nil
	}
	return driverkit.Sleep(ctx, rand.N(usual))
}

// acceptor returns the one that gives turns at this key, or the i-th after it.
func (t *turn) acceptor(i int) *acceptor {
	all := t.q.all
	return all[(hash(t.key)+uint64(i))%uint64(len(all))]
}

func (t *turn) ask(ctx context.Context, a *acceptor, what *server.Script, args ...string) (int64, error) {
	reply, err := a.Do(ctx, what, a.Beside("memory.turn:"+t.key), t.q.me, args...)
	if err != nil {
		return 0, err
	}
	return reply.AsInt64()
}

// end gives the turn back, or has it kept for us. Nobody waits for that: a turn that is not given back ends by itself.
func (t *turn) end() {
	q, a := t.q, t.referee
	if t.reserve > 0 && a == nil {
		a = t.acceptor(0)
	}
	if a == nil {
		return
	}
	if t.reserve > 0 {
		q.ledger.keepTurn(t.key, a)
	}
	q.life.Go(func() {
		ctx, cancel := context.WithTimeout(q.life.Context(), time.Second)
		defer cancel()
		if t.reserve > 0 {
			t.ask(ctx, a, turnScript, strconv.FormatInt(max(1, t.reserve.Milliseconds()), 10))
		} else {
			t.ask(ctx, a, turnEndScript)
		}
	})
}
