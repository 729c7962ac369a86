package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// ear listens to a watch for somebody. It hears what happens after a read. So its owner reads once the watch is open, and
// again whenever the watch had to be reopened.
type ear struct {
	hub    *watches
	watch  *watch
	bell   driverkit.Bell // may be shared by the ears of one waiter
	events []event        // not heard yet; guarded by hub.mu

	// At the last hear:
	open, opened int64     // if the watch was open, the request that opened it, and since which revision
	refusals     int       // how often it had been refused,
	refused      time.Time // and since when

	// At the last read:
	covered int64 // the request that had opened the watch
	heeded  int   // how often it had been refused
	since   int64 // the revision; 0: there was no read
}

// listen rings the bell when there is news: the watch is open, it had to be reopened, or the key has changed. What happened
// up to revision since is already known.
func (ws *watches) listen(what span, bell driverkit.Bell, since int64) *ear {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.keys[what]
	if w == nil {
		w = &watch{span: what}
		ws.keys[what] = w
		ws.request(w)
	}
	e := &ear{hub: ws, watch: w, bell: bell, since: since}
	w.ears = append(w.ears, e)
	if w.opened > 0 || w.refusals > 0 {
		bell.Ring()
	}
	if !ws.runs {
		ws.runs = ws.life.Go(ws.run)
	}
	return e
}

// end stops listening. A watch that nobody listens to is closed a little later: when a crowd leaves at once, the
// service has more urgent things to do.
func (e *ear) end() {
	ws, w := e.hub, e.watch
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.ears = slices.DeleteFunc(w.ears, func(other *ear) bool { return other == e })
	if len(w.ears) > 0 {
		return
	}
	w.unheard = time.Now()
	ws.unheard = append(ws.unheard, unheard{w, w.unheard})
	if !ws.live {
		ws.sweep(w.unheard)
	}
}

// hear returns what has happened since the last read, as far as it has not been heard yet.
func (e *ear) hear() []event {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	e.open, e.opened = 0, e.watch.opened
	if e.opened > 0 {
		e.open = e.watch.asked
	}
	e.refusals, e.refused = e.watch.refusals, e.watch.refused
	events := e.events
	e.events = nil
	if e.since == 0 {
		return nil
	}
	return slices.DeleteFunc(events, func(ev event) bool { return ev.rev <= e.since })
}

// answered reports whether the service has opened the watch or refused it.
func (e *ear) answered() bool { return e.open > 0 || e.refusals > 0 }

// unread reports whether something may have happened that no event reports.
func (e *ear) unread() bool { return e.open > 0 && e.open != e.covered || e.refusals > e.heeded }

// caughtUp records that the owner has read, since the last hear, what there was at revision rev.
func (e *ear) caughtUp(rev int64) {
	e.since = max(e.since, rev)
	if e.open > 0 {
		e.covered = e.open
	}
	e.heeded = e.refusals
}

// bearWith is how long a permission may be missing before those who wait are told.
const bearWith = time.Second

// mayPass reports whether the error of a read can be ignored for now: the read was denied, and so is the watch, but not for
// long yet. The watch will be asked for again, and then the owner reads again.
func (e *ear) mayPass(err error) bool {
	if e.refusals == 0 || !errors.Is(err, driver.ErrDenied) || time.Since(e.refused) > bearWith {
		return false
	}
	e.heeded = e.refusals
	return true
}

// vigil is an ear with a bell of its own, for callers that listen to one thing only.
type vigil struct {
	*ear
	looked  time.Time
	deafFor time.Duration // how long it may listen without a watch before it is time to read; 0: as long as its patience
}

func (ws *watches) vigil(what span, since int64) *vigil {
	return &vigil{ear: ws.listen(what, driverkit.NewBell(), since), looked: time.Now()}
}

// next blocks until something has happened. If it returns no events, it is time to read: something may have been missed,
// nothing has been read for as long as patience, or there has been no watch for deafFor.
func (v *vigil) next(ctx context.Context, patience time.Duration) ([]event, error) {
	timer := time.NewTimer(time.Until(v.looked.Add(patience)))
	defer timer.Stop()
	var deaf <-chan time.Time
	for {
		select {
		case <-v.bell:
		default:
		}
		if events := v.hear(); len(events) > 0 {
			return events, nil
		}
		if v.unread() {
			v.looked = time.Now()
			return nil, nil
		}
		switch {
		case v.answered():
			deaf = nil
		case deaf == nil && v.deafFor > 0:
			deaf = time.After(v.deafFor)
		}
		select {
		case <-v.bell:
		case <-deaf:
			v.looked = time.Now()
			return nil, nil
		case <-timer.C:
			v.looked = time.Now()
			return nil, nil
		case <-ctx.Done():
			return nil, failed("watch "+v.watch.key, unanswered(ctx, nil))
		}
	}
}
