package register

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// lateAtMost is longer than any request may be late. A line is deleted when it has been empty for longer: otherwise a late
// request to make the line would find it missing, as it expects.
const lateAtMost = time.Hour

// oldAtLeast is how old the emptiness of a line must be, by the store's clock, for a process that has not seen so much of it: where all
// are short-lived, nobody sees an hour pass. It leaves a day for a clock that is set ahead while a request is under way.
const oldAtLeast = 25 * time.Hour

// remains are what there is in a store beside sessions, and which sessions there were after that was read.
type remains struct {
	members map[string]map[sessionID]bool // of each line in which somebody stands
	empty   map[string]Item               // lines
	aside   []Item                        // what belongs to a session
	stands  map[sessionID]bool
}

// remains lists all that may remain. First the lines, then the sessions: a session is there before its nodes, so one that is
// missing is over.
func (d *Driver) remains(ctx context.Context) (*remains, error) {
	r := &remains{members: make(map[string]map[sessionID]bool), empty: make(map[string]Item), stands: make(map[sessionID]bool)}
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
		r.empty[name] = Item{Version: it.Version, Age: it.Age}
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

// sweepLines removes the nodes of sessions that have gone, and what else they left behind. It returns the lines that are
// empty. If something is denied it does the rest all the same.
func (d *Driver) sweepLines(ctx context.Context) (empty map[string]Item, err error) {
	r, err := d.remains(ctx)
	if err != nil {
		return nil, err
	}
	var denied error
	for name, members := range r.members {
		if err := d.bury(ctx, name, members, r.stands); errors.Is(err, driver.ErrDenied) {
			denied = err
		} else if err != nil {
			return nil, err
		}
	}
	for _, it := range r.aside {
		if r.stands[sessionOf(it.Key)] {
			continue
		}
		if err := d.deleteItem(ctx, it); errors.Is(err, driver.ErrDenied) {
			denied = err
		} else if err != nil {
			return nil, err
		}
	}
	return r.empty, denied
}

// bury removes from a line the nodes of those members that do not stand any more.
func (d *Driver) bury(ctx context.Context, name string, members, stands map[sessionID]bool) error {
	over := make(map[sessionID]bool)
	for id := range members {
		if !stands[id] {
			over[id] = true
		}
	}
	if len(over) == 0 {
		return nil
	}
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
func (d *Driver) reap(ctx context.Context, name string, version Version) error {
	c, leave := d.clerk(name)
	defer leave()
	it, err := d.readItem(ctx, c.key)
	if err != nil || it.Version != version {
		return err
	}
	l, err := parseLine(it.Value)
	if err != nil {
		return err
	}
	// A process that makes the line again reads the epoch after this.
	if err := d.passEpoch(max(epochOf(l.next), l.seq>>36)); err != nil {
		if errors.Is(err, errFarEpoch) { // the line stays, which harms nobody
			return nil
		}
		return err
	}
	passed := l.seq
	return c.await(ctx, c.want(newWish(nil, func(dr *draft, t try) error {
		if dr.was != nil && dr.count == 0 && dr.seq == passed {
			dr.deleted, dr.changed = true, true
		} else if !t.fresh {
			return errLook
		}
		return nil
	})))
}
