// Package barrier lets a number of processes go on together: each comes to the barrier, and when as many have come as it takes, all
// of them go on. Then it is there for the next round.
//
// Whoever comes is a member of a group. The first in line counts, and when enough have come he writes down up
// to whom the round reaches, in the line's memo, which the service takes from nobody who stands there no more. So all know of the same
// round with the same members, whatever they have missed, and whoever dies.
//
// To the other recipes one who waits is a reader of the line, so give a barrier a name of its own. Its memo stays when nobody is there;
// coord.Client.Forget takes it away.
package barrier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/recipes/group"
)

// Barrier is a name, a number of members and a client. It holds no state and does no I/O until asked.
type Barrier struct {
	client *coord.Client
	name   string
	size   int
}

// New returns the barrier of that name, at which so many have to come. All must say the same number: who says another than one that came
// before it is told coord.ErrInvalid.
func New(c *coord.Client, name string, size int) *Barrier { return &Barrier{c, name, size} }

// Wait comes to the barrier, and returns when enough have come. All who go on together are told the same round, and rounds grow by one.
// Whoever comes too late, or is one too many, waits for the next round, in the order in which they came. A round begins when all
// of the one before have left: of those who Wait each leaves when it goes on.
//
// Who waits and dies is counted until its session has ended, so a round may begin without one who has just died. If ctx ends, Wait
// returns its error; in the very moment in which a round begins, the others may have counted the caller.
func (b *Barrier) Wait(ctx context.Context) (round uint64, err error) {
	in, err := b.enter(ctx, "wait")
	if err != nil {
		return 0, err
	}
	_ = in.hold.Release() // it is only to be gone; what fails here ends with the session
	return in.round, nil
}

// Enter comes to the barrier as Wait does, and stays inside until Leave: a double barrier. Nobody of the next round comes in before
// all have left.
func (b *Barrier) Enter(ctx context.Context) (*Inside, error) { return b.enter(ctx, "enter") }

// Do enters, runs fn and leaves: fn is run by all at the same time, and Do returns when all are through. fn's context ends with ctx, or
// if the caller is not inside any more because its session has ended; see coord.Do for the error. If fn fails the caller leaves without
// waiting for the others.
func (b *Barrier) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if fn == nil {
		return b.fail("enter", fmt.Errorf("%w: the function is nil", coord.ErrInvalid))
	}
	var in *Inside
	err := coord.Do(ctx, func(ctx context.Context) (*coord.Hold, error) {
		var err error
		if in, err = b.Enter(ctx); err != nil {
			return nil, err
		}
		return in.hold, nil
	}, func(ctx context.Context, _ *coord.Hold) error { return fn(ctx) })
	if err != nil {
		return err
	}
	return in.Leave(ctx)
}

// Inside is what has entered a barrier and not left.
type Inside struct {
	barrier *Barrier
	hold    *coord.Hold
	round   uint64
	last    coord.Token // of the round
}

// Round is the same for all who have entered together.
func (in *Inside) Round() uint64 { return in.round }

// Context ends when the caller leaves, or is not inside any more because its session has ended: then the others leave without it.
func (in *Inside) Context() context.Context { return in.hold.Context() }

// Leave leaves, and returns when all who have entered together have left, or died. If ctx ends before that it returns ctx's error;
// the caller has left all the same. If the caller was not inside until now, Leave waits for the others and returns
// coord.ErrLost. Who has left holds nothing that Shutdown of the client would wait for: then Leave returns coord.ErrClosed, and the
// others may still be inside.
func (in *Inside) Leave(ctx context.Context) error {
	b := in.barrier
	left := in.hold.Release()
	for view, err := range b.group().Watch(ctx) {
		switch all := view.Members; {
		case coord.IsLasting(err):
			return b.fail("leave", err)
		case err != nil: // it is looked for again
		case len(all) > 0 && all[0].Token <= in.last: // those of earlier rounds left before this one began
		case errors.Is(left, coord.ErrLost):
			return b.fail("leave", left)
		default:
			return nil
		}
	}
	return b.fail("leave", ctx.Err())
}

func (b *Barrier) fail(op string, err error) error {
	return &coord.Error{Op: op, Line: b.name, Err: err}
}

// group is who has come.
func (b *Barrier) group() *group.Group { return group.New(b.client, b.name) }

// enter stands in line until a round has begun that the caller belongs to. If its session ends before that, it begins again.
func (b *Barrier) enter(ctx context.Context, op string) (*Inside, error) {
	if b.size <= 0 {
		return nil, b.fail(op, fmt.Errorf("%w: a barrier for %d", coord.ErrInvalid, b.size))
	}
	for {
		h, err := b.group().Join(ctx, mark{size: b.size}.encode())
		if err != nil {
			return nil, err
		}
		w := &waiter{barrier: b, place: place{b.size, h.Token(), -1}, hold: h}
		r, err := w.await(ctx)
		if err == nil {
			return &Inside{b, h, r.number, r.last}, nil
		}
		_ = h.Release()
		if errors.Is(err, coord.ErrRemoved) || !errors.Is(err, coord.ErrLost) || coord.IsLasting(err) || err == errCounted {
			return nil, b.fail(op, err)
		}
	}
}

// waiter is one who has come.
type waiter struct {
	place
	barrier *Barrier
	hold    *coord.Hold
	retries driverkit.Retries
	seen    int   // how many had come when it looked last
	trouble error // why it could not look last
}

// await returns the round that the waiter belongs to, once that has begun.
func (w *waiter) await(ctx context.Context) (round, error) {
	standing, cancel := w.hold.With(ctx)
	defer cancel()
	for view, err := range w.barrier.group().Watch(standing) {
		if w.trouble = err; err != nil && !coord.IsLasting(err) {
			continue // it is looked for again
		}
		r, begun := round{}, false
		if err == nil {
			r, begun, err = w.sees(standing, view.Members)
		}
		switch {
		case w.hold.Err() != nil || ctx.Err() != nil:
		case begun || err != nil:
			return r, err
		}
	}
	if ctx.Err() != nil {
		return round{}, w.gaveUp(ctx)
	}
	return round{}, w.afterwards(ctx)
}

// gaveUp says what was in the way when ctx ended.
func (w *waiter) gaveUp(ctx context.Context) error {
	if w.trouble != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), w.trouble)
	}
	return fmt.Errorf("%w: %d of %d have come", ctx.Err(), w.seen, w.size)
}

// errCounted is for one whose place had gone: the round reaches as far, but nobody wrote down who stood there.
var errCounted = fmt.Errorf("%w: a round has begun meanwhile, which may have counted this one", coord.ErrLost)

// afterwards is for one who has lost its place. It waits until that is gone for sure, since up to then a round may begin that counts
// it.
func (w *waiter) afterwards(ctx context.Context) error {
	lost := w.hold.Err()
	_ = w.hold.Release()
	for view, err := range w.barrier.group().Watch(ctx) {
		if w.trouble = err; err == nil && w.at(view.Members) >= 0 || err != nil && !coord.IsLasting(err) {
			continue
		}
		var r round
		if err == nil {
			err = w.insist(ctx, func() (err error) {
				r, err = w.memo(ctx)
				return err
			})
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return w.gaveUp(ctx)
		case err != nil:
			return err
		case r.reaches(w.me):
			return errCounted
		}
		return lost
	}
	return w.gaveUp(ctx)
}

func said(data []byte) string {
	if len(data) == 0 { // on ZooKeeper a node may be one that we may not read
		return "nothing that this client may read"
	}
	return fmt.Sprintf("%q", data[:min(len(data), 40)])
}

// sees goes through a view: has my round begun, or is it mine to begin?
func (w *waiter) sees(ctx context.Context, all []coord.Node) (r round, begun bool, err error) {
	for _, n := range all[:max(w.at(all), 0)] {
		if parseMark(n.Data).size != w.size {
			return round{}, false, fmt.Errorf("%w: one who came before says %s, and this one waits for %d", coord.ErrInvalid, said(n.Data), w.size)
		}
	}
	w.seen = w.came(all)
	next, r := w.place.sees(all)
	if next == asks {
		var latest round
		late := false
		err := w.insist(ctx, func() (err error) {
			if late { // some of them may have left long ago
				if all, err = w.barrier.group().Members(ctx); err != nil {
					return err
				}
			}
			late = true
			latest, err = w.memo(ctx)
			return err
		})
		if err != nil {
			return round{}, false, err
		}
		next, r = w.hears(latest, all)
	}
	switch next {
	case confirms:
		var now []coord.Node
		err = w.insist(ctx, func() (err error) {
			now, err = w.barrier.group().Members(ctx)
			return err
		})
		return r, err == nil && w.at(now) >= 0, err
	case begins:
		return r, true, w.begin(ctx, r)
	}
	return r, next == goesOn, nil
}

// memo reads which round has begun last.
func (w *waiter) memo(ctx context.Context) (round, error) {
	text, err := w.hold.Memo(ctx)
	if err != nil || text == nil {
		return round{}, err
	}
	r, is := parseRound(string(text))
	if !is {
		return round{}, fmt.Errorf("%w: the memo of this line is another recipe's: %q", coord.ErrInvalid, text[:min(len(text), 40)])
	}
	return r, nil
}

// begin begins a round. First it is written down: from then on it has begun, whoever knows. Then all who look are told.
func (w *waiter) begin(ctx context.Context, r round) error {
	if err := w.insist(ctx, func() error { return w.hold.SetMemo(ctx, []byte(r.String())) }); err != nil {
		return err
	}
	// Without it they would hear of it when this one has left.
	_ = w.insist(ctx, func() error { return w.barrier.group().Update(ctx, w.hold, mark{w.size, r}.encode()) })
	return nil
}

// insist tries until that succeeds, ctx ends or trying again cannot help.
func (w *waiter) insist(ctx context.Context, try func() error) error {
	for {
		began := time.Now()
		err := try()
		if err == nil || ctx.Err() == nil {
			w.trouble = err
		}
		if err == nil || coord.IsLasting(err) || errors.Is(err, coord.ErrLost) || w.retries.Sleep(ctx, began) != nil {
			return err
		}
	}
}
