package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/barrier"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/group"
	"github.com/turnwise/turnwise/recipes/multi"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/once"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/shards"
)

const (
	window     = 20 * time.Millisecond // in which goroutines of a worker step into one place
	companions = 3                     // goroutines of a worker that take turns in it
	partitions = 5
	meet       = 3 // how many go through a barrier together
)

// builtErrands are for what is built on the four recipes: places that goroutines share, several lines at once, holders that give way.
func (w *worker) builtErrands(c *coord.Client) []errand {
	var all []errand
	shared, pages := mutex.New(c, "together", mutex.Together(window)), rwlock.New(c, "pages", rwlock.Together(window))
	for range companions {
		all = append(all, errand{line: "together", kind: always("lock"), fenced: true, acquire: func(ctx context.Context, _ string) (*claim, error) {
			return ours(shared.Lock(ctx))
		}}, errand{line: "pages", kind: func(random *rand.Rand) string { return [...]string{"W", "R", "R", "R"}[random.IntN(4)] }, fenced: true,
			acquire: func(ctx context.Context, kind string) (*claim, error) {
				if kind == "R" {
					return ours(pages.RLock(ctx))
				}
				return ours(pages.Lock(ctx))
			}})
	}
	readsOrWrites := func(random *rand.Rand) string { return [...]string{"W", "R"}[random.IntN(2)] }
	for range 2 { // who takes both, and who takes the second alone
		all = append(all, errand{line: "left", kind: readsOrWrites, fenced: true, acquire: func(ctx context.Context, kind string) (*claim, error) {
			return both(ctx, c, kind)
		}})
	}
	right := rwlock.New(c, "right")
	all = append(all, errand{line: "right", kind: always("W"), fenced: true, acquire: func(ctx context.Context, _ string) (*claim, error) {
		return ours(right.Lock(ctx))
	}})
	seat := election.New(c, "ranked", election.Rank(w.job.Slot))
	all = append(all, errand{line: "ranked", kind: always("lead"), fenced: true, acquire: func(ctx context.Context, _ string) (*claim, error) {
		term, err := seat.Campaign(ctx, nil)
		if err != nil {
			return nil, err
		}
		claim, _ := ours(term.Hold, nil)
		claim.unwanted = gives(term.Context(), term.Better)
		return claim, nil
	}})
	asked := mutex.New(c, "asked", mutex.Asking("please"))
	return append(all, errand{line: "asked", kind: always("lock"), fenced: true, acquire: func(ctx context.Context, _ string) (*claim, error) {
		h, err := asked.Lock(ctx)
		claim, err := ours(h, err)
		if err == nil {
			claim.unwanted = gives(h.Context(), h.Wanted)
		}
		return claim, err
	}})
}

// both takes two lines at once, the first as kind says, and writes in the second.
func both(ctx context.Context, c *coord.Client, kind string) (*claim, error) {
	first := multi.Write("left")
	if kind == "R" {
		first = multi.Read("left")
	}
	h, err := multi.New(c, first, multi.Write("right")).Lock(ctx)
	if err != nil {
		return nil, err
	}
	left, right := h.Hold("left"), h.Hold("right")
	return &claim{
		node:    left.Node().ID,
		token:   int64(left.Token()),
		beside:  []part{{line: "right", kind: "W", node: right.Node().ID, token: int64(right.Token())}},
		valid:   func() bool { return h.Err() == nil },
		release: h.Release,
	}, nil
}

// gives returns what is closed once somebody is there to whom a holder gives way.
func gives(ctx context.Context, somebody func(context.Context) (coord.Node, error)) <-chan struct{} {
	there := make(chan struct{})
	go func() {
		if _, err := somebody(ctx); err == nil {
			close(there)
		}
	}()
	return there
}

// runsSlots runs the slots of a job, each at most once, by a clock of the worker's own.
func (w *worker) runsSlots(c *coord.Client, random *rand.Rand) {
	job := once.New(c, "slots", once.AtMostOnce)
	every := w.job.Session / 8
	wrong := time.Duration(random.Int64N(int64(every)))
	for w.rests(time.Duration(random.Int64N(int64(every)))) {
		slot := time.Now().Add(wrong).UnixNano() / int64(every)
		var note func(Event)
		_, err := job.Do(context.Background(), slot, func(_ context.Context, h *coord.Hold) error {
			note = w.owns("slots", slot, h, time.Duration(random.IntN(30))*time.Millisecond, nil)
			return nil
		})
		if note != nil {
			note(ending(err))
		}
	}
}

// ownsShards owns its part of the shards until the worker drains.
func (w *worker) ownsShards(c *coord.Client) {
	ctx, cancel := w.untilDraining()
	defer cancel()
	for ctx.Err() == nil {
		err := shards.New(c, "parts", partitions).Run(ctx, func(ctx context.Context, shard int, h *coord.Hold) error {
			note := w.owns(fmt.Sprint("parts/", shard), 0, h, time.Hour, ctx.Done())
			note(Event{What: released}) // as it will be at once
			return ctx.Err()
		})
		if err != nil {
			w.noting("parts", "lock")(Event{What: failed, Err: err.Error()})
			w.rests(100 * time.Millisecond)
		}
	}
}

// meets goes through a double barrier with others, again and again.
func (w *worker) meets(c *coord.Client, random *rand.Rand) {
	ctx, cancel := w.untilDraining()
	defer cancel()
	b := barrier.New(c, "meeting", meet)
	for w.rests(time.Duration(5+random.IntN(40)) * time.Millisecond) {
		note := w.noting("meeting", "R")
		note(Event{What: want})
		in, err := b.Enter(ctx)
		if err != nil {
			note(Event{What: failed, Err: err.Error()})
			continue
		}
		note(Event{What: granted, Round: in.Round()})
		inside := &claim{valid: func() bool { return in.Context().Err() == nil }}
		if !w.believe(inside, time.Duration(random.IntN(30))*time.Millisecond, note) {
			note(Event{What: lost})
		}
		note(Event{What: releasing})
		note(ending(in.Leave(context.Background())))
	}
}

// belongs joins a group again and again, and watches it: its numbers grow, and all see the members in the order in which they came.
func (w *worker) belongs(c *coord.Client, random *rand.Rand) {
	ctx, cancel := w.untilDraining()
	defer cancel()
	crew := group.New(c, "crew")
	for ctx.Err() == nil {
		note := w.noting("crew", "R")
		note(Event{What: want})
		h, err := crew.Join(ctx, nil)
		if err != nil {
			note(Event{What: failed, Err: err.Error()})
			w.rests(100 * time.Millisecond)
			continue
		}
		note(Event{What: granted, Node: h.Node().ID, Token: int64(h.Token())})
		member, leave := context.WithTimeout(ctx, time.Duration(random.Int64N(2*int64(w.job.Session))))
		stop := context.AfterFunc(h.Context(), leave)
		last := group.View{}
		for v, err := range crew.Watch(member) {
			if err != nil {
				continue
			}
			if text := unlike(last, v); text != "" {
				note(Event{What: odd, Err: text})
			}
			last = v
		}
		stop()
		leave()
		if h.Err() != nil {
			note(Event{What: lost})
		}
		note(Event{What: releasing})
		note(ending(h.Release()))
	}
}

// unlike says what cannot be true of a view of a group that comes after another one.
func unlike(last, v group.View) string {
	came := func(a, b coord.Node) int { return cmp.Compare(a.Token, b.Token) }
	same := func(a, b coord.Node) bool { return a.Token == b.Token }
	switch {
	case v.Number < last.Number:
		return fmt.Sprintf("view %d comes after %d", v.Number, last.Number)
	case v.Number == last.Number && !slices.EqualFunc(v.Members, last.Members, same): // what was seen before an error may be seen again
		return fmt.Sprintf("two views have number %d", v.Number)
	case !slices.IsSortedFunc(v.Members, came):
		return fmt.Sprintf("view %d has members in another order than that in which they came", v.Number)
	case len(last.Members) > 0:
		for _, n := range v.Members { // who is new is behind all that were seen before
			if !slices.ContainsFunc(last.Members, func(b coord.Node) bool { return same(n, b) }) && n.Token < last.Members[len(last.Members)-1].Token {
				return fmt.Sprintf("in view %d member %d has come between two that were there", v.Number, n.Token)
			}
		}
	}
	return ""
}

func (w *worker) untilDraining() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-w.draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// owns uses what a recipe holds for the worker, for that long or until it is unwanted. It returns what notes that it was released.
func (w *worker) owns(line string, slot int64, h *coord.Hold, most time.Duration, unwanted <-chan struct{}) (note func(Event)) {
	c, _ := ours(h, nil)
	c.unwanted = unwanted
	note = w.noting(line, "lock")
	note(Event{What: want})
	note(Event{What: granted, Node: c.node, Token: c.token, Slot: slot})
	w.write(line, c.token)
	if w.believe(c, most, note) {
		w.write(line, c.token)
	} else {
		note(Event{What: lost})
	}
	note(Event{What: releasing})
	return note
}
