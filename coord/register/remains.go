package register

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// lateAtMost is longer than any request may be late. A line is deleted when it has been empty for longer: otherwise a late
// request to make the line would find it missing, as it expects.
const lateAtMost = time.Hour

// oldAtLeast is how old the emptiness of a line must be, by the store's clock, for a process that has not seen so much of it: where all
// are short-lived, nobody sees an hour pass. But that clock may be set by any time, as on a machine that starts with a wrong date, while
// a request is under way that was to make the line. So it is deleted only if it was as old already when the epoch was raised, and that is
// as long ago: see sweeper.provenOld. Both leave a day for a clock that is set by less.
const oldAtLeast = 25 * time.Hour

// remains are what there is in a store beside sessions, and which sessions there were after that was read.
type remains struct {
	members map[string]map[sessionID]bool // of each line in which somebody stands
	empty   map[string]emptyLine
	aside   []Item // what belongs to a session
	stands  map[sessionID]bool
}

// emptyLine is a line in which nobody stands.
type emptyLine struct {
	version Version
	age     time.Duration
	epoch   uint64 // that has to be passed before it is deleted
}

// passing is the epoch that has to be passed before a line is deleted: a process that makes it again reads the epoch after that.
func (l *line) passing() uint64 { return max(epochOf(l.next), l.seq>>36) }

// remains lists all that may remain. First the lines, then the sessions: a session is there before its nodes, so one that is
// missing is over.
func (d *Driver) remains(ctx context.Context) (*remains, error) {
	r := &remains{members: make(map[string]map[sessionID]bool), empty: make(map[string]emptyLine), stands: make(map[sessionID]bool)}
	for _, of := range []struct {
		prefix string
		add    func(Item)
	}{
		{lineKey, r.addLine},
		{dataKey, r.addAside},
		{suspectKey, r.addAside},
		{sessionKey, r.addSession},
	} {
		err := d.store.List(ctx, of.prefix, func(it Item) bool {
			of.add(it)
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *remains) addLine(it Item) {
	name := strings.TrimPrefix(it.Key, lineKey)
	switch l, err := readLine(it.Value); {
	case err != nil: // not ours to sweep
	case l.count > 0:
		members := make(map[sessionID]bool)
		for n := range l.nodes() {
			members[l.members[n.member].id] = true
		}
		r.members[name] = members
	case len(l.value) == 0:
		r.empty[name] = emptyLine{it.Version, it.Age, l.passing()}
	}
}

func (r *remains) addAside(it Item) {
	r.aside = append(r.aside, Item{Key: it.Key, Version: it.Version})
}

func (r *remains) addSession(it Item) {
	if id, ok := parseSessionID(strings.TrimPrefix(it.Key, sessionKey)); ok {
		r.stands[id] = true
	}
}

// clearing is what there is to do about lines: to ask whether the dead are dead, to bury them, and to delete what they said.
type clearing struct {
	asks, lines, aside chores
	over               map[sessionID]bool // who was asked for or ended, and does not stand
}

// isOver spares the next sweep a request: that session was ended here.
func (c *clearing) isOver(id sessionID) {
	if c.over == nil {
		c.over = make(map[sessionID]bool)
	}
	c.over[id] = true
}

// sweepLines removes the nodes of sessions that have gone, and what else they left behind. It returns the lines that are
// empty. If something cannot be done it does the rest all the same.
func (d *Driver) sweepLines(ctx context.Context, c *clearing, t *toll) (empty map[string]emptyLine, err error) {
	r, err := d.remains(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.ask(ctx, d, r, t); err != nil {
		return nil, err
	}
	dead, items := r.left()
	if err := c.lines.do(ctx, d, slices.Collect(maps.Keys(dead)), t, func(ctx context.Context, key string) (bool, error) {
		return true, d.bury(ctx, strings.TrimPrefix(key, lineKey), dead[key])
	}); err != nil {
		return nil, err
	}
	return r.empty, c.aside.do(ctx, d, slices.Collect(maps.Keys(items)), t, func(ctx context.Context, key string) (bool, error) {
		return true, d.deleteItem(ctx, items[key])
	})
}

// ask asks for each session that was not listed. Somebody may hold on it, and nobody tells him that he is buried: so no list is believed
// that lacks it. One that cannot be read stands for now.
func (c *clearing) ask(ctx context.Context, d *Driver, r *remains, t *toll) error {
	over := make(map[sessionID]bool)
	keys := make(map[string]bool)
	for id := range r.unlisted() {
		if c.over[id] { // it does not come back
			over[id] = true
		} else {
			keys[id.key()] = true
		}
	}
	err := c.asks.do(ctx, d, slices.Collect(maps.Keys(keys)), t, func(ctx context.Context, key string) (bool, error) {
		rctx, cancel := d.requestFor(ctx)
		defer cancel()
		it, err := d.store.Read(rctx, key)
		if err == nil && it.Version.IsZero() {
			id, _ := parseSessionID(strings.TrimPrefix(key, sessionKey))
			over[id] = true
		}
		return false, err // nothing is done about anybody yet
	})
	for id := range r.unlisted() {
		r.stands[id] = !over[id]
	}
	c.over = over
	return err
}

// unlisted yields the sessions that have left something and were not listed, some of them more than once.
func (r *remains) unlisted() iter.Seq[sessionID] {
	return func(yield func(sessionID) bool) {
		for _, members := range r.members {
			for id := range members {
				if !r.stands[id] && !yield(id) {
					return
				}
			}
		}
		for _, it := range r.aside {
			if id := sessionOf(it.Key); !r.stands[id] && !yield(id) {
				return
			}
		}
	}
}

// left returns, by keys, the sessions of each line that do not stand any more, and what they have left aside.
func (r *remains) left() (dead map[string]map[sessionID]bool, items map[string]Item) {
	dead, items = make(map[string]map[sessionID]bool), make(map[string]Item)
	for name, members := range r.members {
		maps.DeleteFunc(members, func(id sessionID, _ bool) bool { return r.stands[id] })
		if len(members) > 0 {
			dead[lineKey+name] = members
		}
	}
	for _, it := range r.aside {
		if !r.stands[sessionOf(it.Key)] {
			items[it.Key] = it
		}
	}
	return dead, items
}

// bury removes from a line the nodes of sessions that are over.
func (d *Driver) bury(ctx context.Context, name string, over map[sessionID]bool) error {
	c, leave := d.clerk(name)
	defer leave()
	return c.await(ctx, c.prune(over))
}

// deleteItem deletes a register, unless somebody has changed it.
func (d *Driver) deleteItem(ctx context.Context, it Item) error {
	ctx, cancel := d.requestFor(ctx)
	defer cancel()
	_, err := d.store.Swap(ctx, Swap{Key: it.Key, Old: it.Version, By: d.self})
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// reap deletes a line's register if that is still the version that was seen to be empty for long: the sweep took a while.
func (d *Driver) reap(ctx context.Context, name string, version Version) (done bool, err error) {
	c, leave := d.clerk(name)
	defer leave()
	it, err := d.readItem(ctx, c.key)
	if err != nil || it.Version != version {
		return false, err
	}
	l, err := parseLine(it.Value)
	if err != nil {
		return false, err
	}
	if err := d.passEpoch(l.passing()); err != nil {
		if errors.Is(err, errFarEpoch) { // the line stays, which harms nobody
			return false, nil
		}
		return false, err
	}
	passed := l.seq
	return true, c.await(ctx, c.want(newWish(nil, func(dr *draft, t try) error {
		if dr.was != nil && dr.count == 0 && dr.seq == passed {
			dr.deleted, dr.changed = true, true
		} else if !t.fresh {
			return errLook
		}
		return nil
	})))
}
