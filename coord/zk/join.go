package zk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// maxBytes is what a node's data may have. The server drops the connection that brings it more than a megabyte, and
// with that connection every other request of the session.
const maxBytes = 1_000_000

// Join is described in package driver.
//
// The client library's own protected create is not up to it: it looks for its node only after one of the errors that
// leave the outcome open, may do so on a server that lags, and gives up if that fails, too. So here a goroutine of
// the session's own makes the node and does not rest until it knows what became of it, whether or not the caller
// still waits; if not, it takes the node away.
func (s *session) Join(ctx context.Context, e driver.Entry) (driver.Node, []driver.Node, error) {
	if err := ctx.Err(); err != nil {
		return driver.Node{}, nil, err
	}
	j := &joining{
		session: s,
		entry:   e,
		dir:     s.driver.path(e.Line),
		wanted:  contender{guid: newGUID(), kind: e.Kind, way: s.driver.names},
		note:    driver.EncodeNote(e.Owner, e.Data),
		result:  make(chan joined, 1),
	}
	if len(j.note) > maxBytes {
		return driver.Node{}, nil, fmt.Errorf("%d bytes of data for a node in %s: at most %d are allowed", len(j.note), j.dir, maxBytes)
	}
	if e.Try {
		if err := j.lookFirst(ctx); err != nil {
			return driver.Node{}, nil, err
		}
	}
	if !s.spawn(func() { j.run(ctx) }) {
		return driver.Node{}, nil, s.ending()
	}
	var why error
	select {
	case r := <-j.result:
		return r.me, r.ahead, r.err
	case <-ctx.Done():
		why = s.given(ctx.Err())
	case <-s.done:
		why = s.ending()
	}
	if j.fate.CompareAndSwap(undecided, givenUp) {
		return driver.Node{}, nil, why
	}
	r := <-j.result
	return r.me, r.ahead, r.err
}

// joining is one Join.
type joining struct {
	session *session
	entry   driver.Entry
	dir     string
	wanted  contender
	note    []byte

	open   bool // a create had no answer
	fate   atomic.Int32
	result chan joined
}

type joined struct {
	me    driver.Node
	ahead []driver.Node
	err   error
}

// Either the caller has the node or this goroutine takes it away.
const (
	undecided int32 = iota
	delivered
	givenUp
)

func (j *joining) deliver(r joined) bool {
	if !j.fate.CompareAndSwap(undecided, delivered) {
		return false
	}
	j.result <- r
	return true
}

var errGivenUp = errors.New("given up")

func (j *joining) wantedStill() error {
	if j.fate.Load() == givenUp {
		return errGivenUp
	}
	return nil
}

// run joins and delivers. Up to the first request ctx rules, from then on the session.
func (j *joining) run(ctx context.Context) {
	for try := 0; ; try++ {
		me, ahead, err := j.once(ctx)
		if err == errJoinAgain {
			if try == 0 || sleep(ctx, backOff(try)) == nil {
				continue
			}
			err = j.session.given(ctx.Err())
		}
		if !j.deliver(joined{me, ahead, err}) && err == nil {
			j.session.discard(me.ID)
		}
		if j.open {
			j.session.audit(j.dir, j.wanted)
		}
		return
	}
}

// errJoinAgain: nothing is in line, and it is to be tried again.
var errJoinAgain = errors.New("join again")

// once makes a node and looks at the line. After an error there is none.
func (j *joining) once(ctx context.Context) (me driver.Node, ahead []driver.Node, err error) {
	s := j.session
	mine, seen, err := j.create(ctx)
	if err != nil {
		return me, nil, err
	}
	st := s.stands(j.entry.Line, j.dir, mine)
	ahead, ok := []driver.Node(nil), false
	for try := 0; !ok; try++ {
		if seen != nil {
			if ahead, ok = st.ahead(seen, j.entry.Sight); ok {
				break
			}
		}
		// The list did not come, or it is older than the node.
		if err = j.wantedStill(); err == nil && try > 0 {
			err = j.stillThere(mine)
		}
		if err == nil {
			seen, err = s.children(s.ctx, j.dir)
		}
		if err != nil {
			s.discard(mine)
			return me, nil, err
		}
	}
	j.dropTwins(seen.names, mine)
	c, _ := parseContender(path.Base(mine))
	me = driver.Node{
		Line: j.entry.Line, ID: mine, Kind: j.entry.Kind, Token: token(seen.born, c),
		Owner: j.entry.Owner, Data: j.entry.Data, Last: st.isLast(),
	}
	if s.driver.nearEnd(j.entry.Line, c.seq) {
		s.discard(mine)
		return me, nil, j.beginAnew(ctx, seen.born)
	}
	if j.entry.Try && len(ahead) > 0 {
		s.discard(mine)
		return me, nil, driver.ErrBusy
	}
	return me, ahead, nil
}

// create makes the node, and lists the line in the same round trip: the list is sent right behind the create, on the
// same connection, so that it shows all who are ahead. It is nil if it did not arrive.
func (j *joining) create(ctx context.Context) (mine string, seen *list, err error) {
	s := j.session
	if err := s.enter(ctx); err != nil {
		return "", nil, err
	}
	if err := j.wantedStill(); err != nil {
		s.exit()
		return "", nil, err
	}
	make, made := createRequest(j.dir+"/"+j.wanted.prefix(), j.note, s.driver.acl)
	look, looked := s.listRequest(j.dir, false)
	s.spoken.Load().send(make, look)
	a, l := <-made, <-looked // each request is answered, at the latest when the connection ends
	s.exit()
	if l.err == nil {
		seen = l.value
	}
	err = s.judge(a.err)
	switch {
	case err == nil:
		return a.value, seen, nil
	case errors.Is(err, gozk.ErrNoNode):
		if err := j.wantedStill(); err != nil {
			return "", nil, err
		}
		if err := s.makeDir(j.dir); err != nil {
			return "", nil, err
		}
		return "", nil, errJoinAgain
	case passing(err):
		return j.settle()
	}
	return "", nil, explain(err, "joining in", j.dir, "CREATE", "")
}

// settle finds out what became of a create that had no answer: once the session is connected again, on a server that
// has caught up, the node stands in the line or it was never made.
func (j *joining) settle() (mine string, seen *list, err error) {
	s := j.session
	s.driver.log.Debug("a join had no answer", "line", j.entry.Line)
	j.open = true
	seen, err = s.freshChildren(s.ctx, j.dir)
	if errors.Is(err, gozk.ErrNoNode) {
		seen, err = new(list), nil
	}
	if err != nil {
		return "", nil, err
	}
	if twins := j.wanted.twins(seen.names); len(twins) > 0 {
		return j.dir + "/" + twins[0], seen, nil
	}
	if err := j.wantedStill(); err != nil {
		return "", nil, err
	}
	return "", nil, errJoinAgain
}

// stillThere tells a list that is slow to show a node from a node that has been removed.
func (j *joining) stillThere(mine string) error {
	there, err := j.session.exists(j.session.ctx, mine)
	if err == nil && !there {
		err = driver.ErrRemoved
	}
	return err
}

// dropTwins takes away what else was made for this join, by a request that was thought lost.
func (j *joining) dropTwins(names []string, mine string) {
	for _, name := range j.wanted.twins(names) {
		if p := j.dir + "/" + name; p != mine {
			j.session.spawn(func() { j.session.discard(p) })
		}
	}
}

// twins are the nodes that were made for one join, the first in line first.
func (c contender) twins(names []string) []string {
	prefix := c.prefix()
	var twins []listed
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if c, ok := parseContender(name); ok {
			twins = append(twins, listed{c, name})
		}
	}
	slices.SortFunc(twins, compareListed)
	var found []string
	for _, t := range twins {
		found = append(found, t.name)
	}
	return found
}

// lookFirst is for a try: no node is made when somebody is in the way. A server that lags may show one who has gone,
// so the bad news is made sure of.
func (j *joining) lookFirst(ctx context.Context) error {
	s := j.session
	for _, look := range []func(context.Context, string) (*list, error){s.children, s.freshChildren} {
		l, err := look(ctx, j.dir)
		if errors.Is(err, gozk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(contenders(l.names), func(l listed) bool { return j.entry.Sight.Sees(l.kind) }) {
			return nil
		}
	}
	return driver.ErrBusy
}
