package zk

import (
	"context"
	"errors"
	"slices"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// First watches the directory and the nodes in it, or the first node alone if no other is wanted: nobody ever joins ahead of it.
// If there is no directory, it waits for it to be made.
func (d *service) First(ctx context.Context, line string, most int, seen *driver.Look) (driver.Look, error) {
	o := &observing{line: line, dir: d.path(line), most: most, waits: seen != nil, anew: seen == nil, bell: driverkit.NewBell()}
	defer o.quit()
	for {
		now, err := d.glance(ctx, o)
		if err != nil || seen == nil || !now.IsOf(seen.Nodes) {
			return now, err
		}
		o.anew = false
		again := time.NewTimer(driverkit.Jitter(driverkit.PollPause(max(o.session.timeout(), time.Second), 0)))
		select {
		case <-o.bell:
		case <-again.C:
			o.anew = true
		case <-o.session.life.Done():
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return driver.Look{}, o.session.stopped(ctx)
		}
	}
}

// glance looks once. When somebody watches it gives up after a while, so that they learn that what they were told may be
// stale.
func (d *service) glance(ctx context.Context, o *observing) (driver.Look, error) {
	if o.waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.RequestTimeout())
		defer cancel()
	}
	if o.session != nil && !o.session.life.Over() {
		if now, err := o.look(ctx); !errors.Is(err, driver.ErrSessionEnded) {
			return now, err
		}
	}
	return withSession(ctx, d, func(s *session) (driver.Look, error) {
		o.quit()
		o.session = s
		return o.look(ctx)
	})
}

// observing is one First.
type observing struct {
	session *session // the one used for the last look; nil: none yet
	line    string
	dir     string
	most    int
	waits   bool
	anew    bool // the next look reads everything again, in case that the service has kept something to itself
	bell    driverkit.Bell
	on      map[*watch]bool
}

// watch watches the nodes that were listed, and the directory if that may show more of what is wanted. Whatever happens after
// transaction since rings.
func (o *observing) watch(since int64, all []listed, missing bool) {
	var interests []interest
	on := make(map[*watch]bool, len(all)+1)
	want := func(path string, what aspect) {
		w := o.session.watches.join(path, o.bell)
		on[w], interests = true, append(interests, interest{w, what})
	}
	for _, c := range all {
		want(o.dir+"/"+c.name, ofData)
	}
	switch {
	case missing:
		want(o.dir, ofComing)
	case len(all) == 0 || o.most > 1:
		want(o.dir, ofChildren)
	}
	for w := range o.on {
		if !on[w] {
			o.session.quit(w, o.bell)
		}
	}
	o.on = on
	o.session.arm(since, interests...)
}

// quit stops watching.
func (o *observing) quit() {
	for w := range o.on {
		o.session.quit(w, o.bell)
	}
	o.on = nil
}

// looksForOne is after how many looks a view may show what has changed meanwhile. Each node is a read of its own, so in a long line
// nobody would ever see it as it stands while others come and go.
const looksForOne = 3

// look reads who is first. If it waits, any change from then on rings the bell.
func (o *observing) look(ctx context.Context) (driver.Look, error) {
	s := o.session
	for looks := 1; ; looks++ {
		l, err := s.freshChildren(ctx, o.dir)
		missing := errors.Is(err, gozk.ErrNoNode)
		if missing {
			l, err = new(wire.Listing), nil
		}
		if err == nil && !missing {
			if err = s.vet(ctx, o.dir, l.Born); errors.Is(err, gozk.ErrNoNode) {
				continue
			}
		}
		if err != nil {
			return driver.Look{}, err
		}
		all := contenders(l.Names)
		all = all[:min(len(all), o.most)]
		if o.waits {
			o.watch(l.AsOf, all, missing)
		}
		show := s.showWatched
		if o.anew {
			show = s.show
		}
		nodes, last, gone, err := s.readNodes(ctx, listedNodes(all, o.line, o.dir, l.Born), show)
		switch {
		case err != nil:
			return driver.Look{}, err
		case len(gone) == 0 && (o.most == 1 || last <= l.AsOf): // it stood like this when it was listed
			return driver.Look{Nodes: nodes, At: uint64(max(l.Last, last))}, nil
		case looks < looksForOne || o.most == 1:
			continue
		}
		if len(gone) > 0 { // one that was amended has gone from its path, not from the line
			now, err := s.children(ctx, o.dir)
			if err == nil && slices.ContainsFunc(gone, func(name string) bool { return amendedIn(now.Names, name) }) {
				continue
			}
		}
		return driver.Look{Nodes: nodes, At: uint64(l.AsOf)}, nil // less than any change since
	}
}
