package redis

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// A turn is the right to disturb others at a register, given by one of the acceptors. It decides nothing: it saves
// proposers from disturbing each other again and again.
type turn struct {
	q       *Quorum
	key     string
	referee *acceptor     // nil: we do not have it
	reserve time.Duration // keep it for that long
}

// KEYS: the turn. ARGV: who, for how long in ms. It returns 1 if the turn is theirs.
var turnScript = newScript(`
local has = redis.call('GET', KEYS[1])
if has and has ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`)

// KEYS: the turn. ARGV: who.
var turnEndScript = newScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`)

// referee returns the turn of a key, which is ours only if it was reserved.
func (q *Quorum) referee(key string) *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &turn{q: q, key: key, referee: q.turns[key]}
	delete(q.turns, key)
	return t
}

// usual is how long a trip takes.
func (q *Quorum) usual() time.Duration { return time.Duration(q.trip.Load()) + 20*time.Microsecond }

func (t *turn) name(a *acceptor) []string { return []string{a.mark + ".turn:" + t.key} }

// take waits for the turn, but not for ever: whoever has it may have died.
func (t *turn) take(ctx context.Context) error {
	usual := t.q.usual()
	if t.referee != nil { // somebody disturbs us without a turn
		return driverkit.Sleep(ctx, rand.N(usual))
	}
	for i := range t.q.all {
		a := t.q.all[(hash(t.key)+uint64(i))%uint64(len(t.q.all))]
		if a.voting.Load() == nil || a.waiting.Load() > maxWaiting/2 {
			continue
		}
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

func (t *turn) ask(ctx context.Context, a *acceptor, what *script, args ...string) (int64, error) {
	reply, err := a.conn.run(ctx, what, t.name(a), append([]string{t.q.me}, args...))
	if err != nil {
		return 0, err
	}
	return reply.AsInt64()
}

// end gives the turn back, or keeps it.
func (t *turn) end() {
	q, a := t.q, t.referee
	if t.reserve > 0 && a == nil {
		a = q.all[hash(t.key)%uint64(len(q.all))]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if a == nil || q.closed {
		return
	}
	if t.reserve > 0 && len(q.turns) < maxPromised {
		q.turns[t.key] = a
	}
	q.running.Go(func() {
		ctx, cancel := context.WithTimeout(q.life, time.Second)
		defer cancel()
		if t.reserve > 0 {
			t.ask(ctx, a, turnScript, strconv.FormatInt(max(1, t.reserve.Milliseconds()), 10))
		} else {
			t.ask(ctx, a, turnEndScript)
		}
	})
}
