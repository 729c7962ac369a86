package zk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// maxBytes is how long a node's data may be. A server drops a connection that sends more than a megabyte, and with it every
// other request of the session.
const maxBytes = 1_000_000

// Join has a goroutine of the session make the node. The goroutine goes on until it knows what became of the node, whether
// or not the caller still waits; if nobody does, it takes the node away.
//
// The client library's own protected create is not enough: it looks for its node after only one of the errors that leave
// the outcome open, may do so on a server that lags, and gives up if that fails too.
func (s *session) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	j := &joining{
		session:   s,
		entry:     e,
		dir:       s.service.path(e.Line),
		contender: contender{guid: newGUID(), kind: e.Kind, way: s.service.way},
		card:      driver.EncodeCard(e.Owner, e.Data),
	}
	if len(j.card) > maxBytes {
		return nil, nil, fmt.Errorf("%d bytes of data for a node in %s: at most %d are allowed", len(j.card), j.dir, maxBytes)
	}
	if e.Free != nil {
		if err := j.lookFirst(ctx); err != nil {
			return nil, nil, err
		}
	}
	done, err := driverkit.Deliver(ctx, s.life,
		func(wanted func() bool) (joined, error) { j.wanted = wanted; return j.run(ctx) },
		func(late joined) {
			s.discard(late.place.node.ID)
			late.place.gone()
		})
	switch {
	case err == nil:
		return done.place, done.ahead, nil
	case err == ctx.Err():
		err = s.stopped(ctx)
	}
	return nil, nil, err
}

// joining is one Join.
type joining struct {
	session    *session
	entry      driver.Entry
	dir        string
	contender  contender // without its number
	card       []byte
	wanted     func() bool // somebody still waits for the result
	unanswered bool        // a create got no answer
}

type joined struct {
	place *place
	ahead []driver.Node
}

var (
	errGivenUp   = errors.New("given up")
	errJoinAgain = errors.New("join again") // nothing of ours is in line; try once more
	errUsedUp    = errors.New("used up")    // the directory has no more numbers to give
)

func (j *joining) unlessGivenUp() error {
	if !j.wanted() {
		return errGivenUp
	}
	return nil
}

// run joins. Until the first request ctx can end it, from then on only the session.
func (j *joining) run(ctx context.Context) (joined, error) {
	s := j.session
	if err := s.roster.begin(j.dir, j.contender); err != nil {
		return joined{}, err
	}
	for tries := 0; ; tries++ {
		p, ahead, err := j.once(ctx)
		if err == errJoinAgain {
			if tries == 0 || pause(ctx, tries-1) == nil {
				continue
			}
			err = s.stopped(ctx)
		}
		if err == nil {
			s.roster.add(p)
		}
		if j.unanswered {
			j.audit(p)
		} else {
			s.roster.end(j.contender.guid)
		}
		return joined{p, ahead}, err
	}
}

// once makes a node and looks at the line. After an error there is no node.
func (j *joining) once(ctx context.Context) (*place, []driver.Node, error) {
	mine, seen, err := j.create(ctx)
	if err != nil {
		return nil, nil, err
	}
	me := driver.Node{Line: j.entry.Line, ID: mine, Kind: j.entry.Kind, Owner: j.entry.Owner, Data: j.entry.Data}
	p := &place{session: j.session, dir: j.dir, sight: j.entry.Sight, node: me, paths: []string{mine}}
	ahead, born, err := j.stand(p, seen)
	if err == nil {
		return p, ahead, nil
	}
	j.session.discard(mine)
	if err == errUsedUp {
		err = j.beginAnew(ctx, born)
	}
	return nil, nil, err
}

// stand finds out who is ahead of a node that was made, and whether it may stay. born tells this directory of the line
// from the next one.
func (j *joining) stand(p *place, seen *wire.Listing) (ahead []driver.Node, born int64, err error) {
	s := j.session
	ahead, seen, err = j.look(p, seen)
	if err != nil {
		return nil, 0, err
	}
	if err := s.vet(s.life.Context(), j.dir, seen.Born); err != nil {
		if errors.Is(err, gozk.ErrNoNode) {
			err = driver.ErrRemoved
		}
		return nil, 0, err
	}
	c, _ := parseContender(path.Base(p.node.ID))
	p.node.Token = token(seen.Born, c)
	if s.service.nearEnd(j.entry.Line, c.seq) || int64(p.node.Token) > s.zxids.Load() {
		return nil, seen.Born, errUsedUp
	}
	if j.entry.InVain(ahead) {
		return nil, 0, driver.ErrBusy
	}
	return ahead, seen.Born, nil
}

// create makes the node, with the line's directory if that is missing.
func (j *joining) create(ctx context.Context) (mine string, seen *wire.Listing, err error) {
	s := j.session
	node := wire.Node{Path: j.dir + "/" + j.contender.prefix(), Data: j.card, Flags: gozk.FlagEphemeralSequential}
	create, created := wire.Create(node, s.service.acl)
	mine, seen, err = j.send(ctx, create, created)
	if !errors.Is(err, gozk.ErrNoNode) {
		err = explainRefusal(err, "joining in", j.dir, "CREATE", "")
	} else {
		err = s.within(j.dir, func(dirs []wire.Node) (err error) {
			create, created := wire.CreateAll(append(slices.Clip(dirs), node), s.service.acl)
			mine, seen, err = j.send(s.life.Context(), create, created)
			return err
		})
	}
	switch {
	case errors.Is(err, gozk.ErrNodeExists):
		return "", nil, errJoinAgain
	case err != errGivenUp && passing(err):
		return j.settle()
	}
	return mine, seen, err
}

// send asks for the node, and lists the line in the same round trip: the list is asked for right behind, on
// the same connection, so it shows everybody ahead. If a list of the line is already under way, the next one serves all who
// join meanwhile. seen is nil if the list did not arrive.
func (j *joining) send(ctx context.Context, create wire.Request, created <-chan wire.Reply[string]) (mine string, seen *wire.Listing, err error) {
	s := j.session
	if err := s.enter(ctx); err != nil {
		return "", nil, err
	}
	if err := j.unlessGivenUp(); err != nil {
		s.exit()
		return "", nil, err
	}
	list := s.listAfter(j.dir, false, create)
	c := <-created // each request is answered, at the latest when the connection ends
	s.exit()
	if err = s.named(c.Err); err != nil {
		list.giveUp(s)
		return "", nil, err
	}
	if seen, err = list.wait(s.life.Context(), s); err != nil {
		seen = nil // look asks again
	}
	return c.Value, seen, nil
}

// settle finds out what became of a create that got no answer: once the session is connected again, to a server that
// has caught up, either the node stands in the line or it was never made.
func (j *joining) settle() (mine string, seen *wire.Listing, err error) {
	s := j.session
	s.service.log.Debug("zk: a join had no answer", "line", j.entry.Line)
	j.unanswered = true
	seen, err = s.freshChildren(s.life.Context(), j.dir)
	if errors.Is(err, gozk.ErrNoNode) {
		seen, err = new(wire.Listing), nil
	}
	var made []string
	if err == nil {
		made, err = j.made(seen.Names)
	}
	if err != nil { // reading is refused: audit will try again
		return "", nil, err
	}
	if len(made) > 0 {
		return made[0], seen, nil
	}
	if err := j.unlessGivenUp(); err != nil {
		return "", nil, err
	}
	return "", nil, errJoinAgain
}

// look finds out who is ahead. It lists the line again if the create brought no list, or one older than the node.
func (j *joining) look(p *place, seen *wire.Listing) (ahead []driver.Node, _ *wire.Listing, err error) {
	s := j.session
	ctx := s.life.Context()
	for listings := 0; ; listings++ {
		if seen != nil {
			var found bool
			if ahead, p.last, found = p.pick(seen); found {
				return ahead, seen, nil
			}
		}
		if err = j.unlessGivenUp(); err == nil && listings > 0 { // either the server is slow to show our node, or it was removed
			var there bool
			if there, err = s.exists(ctx, p.node.ID); err == nil && !there {
				err = driver.ErrRemoved
			}
		}
		if err == nil && listings > 0 {
			err = pause(ctx, listings-1)
		}
		if err == nil {
			if seen, err = s.children(ctx, p.dir); errors.Is(err, gozk.ErrNoNode) {
				seen, err = nil, nil // the line has gone, and our own node before it
			}
		}
		if err != nil {
			return nil, nil, s.life.Verdict(err)
		}
	}
}

// made returns the nodes that were made for this join, in line order. Anyone who may list the line can make others with
// such names, so it checks the owner.
func (j *joining) made(names []string) (made []string, err error) {
	for _, name := range j.contender.twins(names) {
		nodePath := j.dir + "/" + name
		ours, err := j.session.owns(j.session.life.Context(), nodePath)
		if err != nil {
			return nil, err
		}
		if ours {
			made = append(made, nodePath)
		}
	}
	return made, nil
}

// lookFirst is for a try: it makes no node when somebody is in the way. A server that lags may show somebody who has gone,
// so lookFirst double-checks bad news.
func (j *joining) lookFirst(ctx context.Context) error {
	s := j.session
	for _, look := range []func(context.Context, string) (*wire.Listing, error){s.children, s.freshChildren} {
		l, err := look(ctx, j.dir)
		if errors.Is(err, gozk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		there := choose(l.Names, j.entry.Sight, contender{seq: behindAll}, nobody)
		if !j.entry.InVain(there.nodes(j.entry.Line, j.dir, l.Born, j.entry.Sight)) {
			return nil
		}
	}
	return driver.ErrBusy
}

func nobody(string) bool { return false }
