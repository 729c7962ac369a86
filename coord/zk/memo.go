package zk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// memos is the directory of the memos. No line has a segment of this name: a percent sign is always followed by two digits.
// A line's own directory goes when it is empty, and a memo must not keep it.
func (c *config) memos() string { return c.root + "/%memo" }

func (c *config) memo(line string) string { return c.memos() + "/" + encodeSegment(line, false) }

// memo is the memo of a line as a place knows it.
type memo struct {
	known   bool
	there   bool
	version int32
	open    bool // a write had no answer, and none has succeeded since
}

// Remember writes the memo, in one transaction that asks whether the node stands.
func (p *place) Remember(ctx context.Context, value []byte) error {
	s := p.session
	w := &remembering{place: p, to: s.service.memo(p.Node().Line), value: value}
	err := s.vet(ctx, s.service.memos(), 0)
	if err == nil || errors.Is(err, gozk.ErrNoNode) {
		err = w.run(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.memo.open = false
	case passing(err), isCtx(err), p.memo.open, errors.Is(err, driver.ErrRemoved), errors.Is(err, driver.ErrSessionEnded):
	default:
		err = fmt.Errorf("%w: %w", err, driver.ErrUnchanged)
	}
	return err
}

// remembering is one Remember. Its write may be done once more when later ones have been answered: see toReplace. So it names
// the version of the memo, and that of the node. The versions of a memo begin anew when it is made again. But whenever one is
// made or taken away, the node is written to as well, as it stands, and what was on its way before finds another version
// there. Not each time a memo is written: that wakes all who wait for the holder.
type remembering struct {
	*place
	to    string
	value []byte    // nil: there is to be none
	at    string    // the path of the node
	own   wire.Data // what the node says
	doubt bool      // it may say something else
	old   memo      // what is to be replaced
	none  bool      // there is no memo: what is still on its way must not bring one
}

func (w *remembering) run(ctx context.Context) error {
	for {
		latest, err := w.look(ctx)
		if err != nil {
			return err
		}
		switch stands, err := w.try(ctx); {
		case err == nil:
			return nil
		case stands:
			if done, err := w.notWritten(ctx, err); done || err != nil {
				return err
			}
		case errors.Is(err, gozk.ErrNoNode) && latest:
			w.gone()
			return driver.ErrRemoved
		case errors.Is(err, gozk.ErrNoNode), errors.Is(err, gozk.ErrBadVersion): // by an earlier write, which got no answer
			w.doubt, w.none = true, false
		default:
			return explainRefusal(err, "writing", w.to, "WRITE", w.at)
		}
	}
}

// notWritten is called when the memo could not be written though the node stands. done means that there is nothing to write.
func (w *remembering) notWritten(ctx context.Context, err error) (done bool, _ error) {
	switch missing := errors.Is(err, gozk.ErrNoNode); {
	case missing && w.value == nil:
		done, w.none = w.isSure(), true
	case missing && !w.old.there:
		return false, w.session.makeMemos(ctx)
	case missing, errors.Is(err, gozk.ErrNodeExists), errors.Is(err, gozk.ErrBadVersion): // there is another one than was seen
	default:
		return true, explainRefusal(err, "writing", w.to, "WRITE or CREATE", path.Dir(w.to))
	}
	return done, nil
}

// look finds out what is to be replaced. latest is as whereIs says.
func (w *remembering) look(ctx context.Context) (latest bool, err error) {
	now, latest, err := w.whereIs(ctx)
	if err != nil {
		return false, err
	}
	if w.doubt || now != w.at {
		if w.own, err = w.says(ctx, now); err != nil {
			return false, err
		}
		w.at, w.doubt = now, false
	}
	w.mu.Lock()
	w.old = w.memo
	w.mu.Unlock()
	if !w.old.known {
		data, err := w.session.toReplace(ctx, w.to)
		if err != nil && !errors.Is(err, gozk.ErrNoNode) {
			return false, err
		}
		w.old = memo{known: true, there: err == nil, version: data.Version}
	}
	return latest, nil
}

// says returns what the node says at one of its paths.
func (w *remembering) says(ctx context.Context, nodePath string) (wire.Data, error) {
	w.mu.Lock()
	if !w.doubt && !w.open && w.node.ID == nodePath {
		defer w.mu.Unlock()
		return wire.Data{Bytes: driver.EncodeCard(w.node.Owner, w.node.Data), Version: w.version}, nil
	}
	w.mu.Unlock()
	data, err := w.session.toReplace(ctx, nodePath)
	if errors.Is(err, gozk.ErrNoNode) { // the write is to say so, and to change nothing if it has come to be there meanwhile
		return wire.Data{Version: math.MaxInt32}, nil
	}
	return data, err
}

// isSure reports whether nothing is on its way any more that could bring a memo, or nothing can be done about it.
func (w *remembering) isSure() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.memo.open || w.own.Version == anyVersion
}

// try writes. After an error, stands says that the node is there, with the version that it should have.
func (w *remembering) try(ctx context.Context) (stands bool, err error) {
	ops, own, now := w.ops()
	stands, open, err := fetchOpen(ctx, w.session, func(c *gozk.Conn) (bool, error) {
		answers, err := c.Multi(ops...)
		return len(answers) == 0 || answers[0].Error == nil, err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memo.open = w.memo.open || open
	w.memo.known = false
	if err == nil {
		w.memo = now
		if !w.open && w.node.ID == w.at {
			w.version = own
		}
	}
	return stands, err
}

// ops are the operations that make the memo be as asked, and what the node's version and the memo are then.
func (w *remembering) ops() (ops []any, own int32, now memo) {
	if own = w.own.Version; own != anyVersion && (w.value == nil || !w.old.there) {
		ops = append(ops, &gozk.SetDataRequest{Path: w.at, Data: w.own.Bytes, Version: own})
		own++
	} else {
		ops = append(ops, &gozk.CheckVersionRequest{Path: w.at, Version: own})
	}
	now = memo{known: true}
	switch {
	case w.none:
	case w.value == nil:
		ops = append(ops, &gozk.DeleteRequest{Path: w.to, Version: w.old.version})
	case w.old.there:
		ops = append(ops, &gozk.SetDataRequest{Path: w.to, Data: w.value, Version: w.old.version})
		now = memo{known: w.old.version != anyVersion, there: true, version: w.old.version + 1}
	default:
		ops = append(ops, &gozk.CreateRequest{Path: w.to, Data: w.value, Acl: w.session.service.acl, Flags: gozk.FlagPersistent})
		now.there = true
	}
	return ops, own, now
}

// makeMemos makes the directory of the memos.
func (s *session) makeMemos(ctx context.Context) error {
	if err := s.makeDir(ctx, s.service.memos()); err != nil {
		return err
	}
	return s.vet(ctx, s.service.memos(), 0)
}

func (d *service) Memo(ctx context.Context, line string) ([]byte, error) {
	return withSession(ctx, d, func(s *session) ([]byte, error) { return s.recall(ctx, line) })
}

// Recall asks on the session that was let in. Another one may be connected to a leader that was stopped and does not know yet that there
// is a new one: that answers a sync by itself, and shows what the memo was before.
func (p *place) Recall(ctx context.Context) ([]byte, error) {
	return p.session.recall(ctx, p.Node().Line)
}

func (s *session) recall(ctx context.Context, line string) ([]byte, error) {
	from := s.service.memo(line)
	if err := s.vet(ctx, s.service.memos(), 0); errors.Is(err, gozk.ErrNoNode) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	memo, err := fetch(ctx, s, func(c *gozk.Conn) ([]byte, error) {
		if _, err := c.Sync(from); err != nil {
			return nil, err
		}
		memo, _, err := c.Get(from)
		return memo, err
	})
	if errors.Is(err, gozk.ErrNoNode) {
		return nil, nil
	}
	return memo, explainRefusal(err, "reading", from, "READ", "")
}

func (d *service) Forget(ctx context.Context, line string) error {
	_, err := withSession(ctx, d, func(s *session) (struct{}, error) {
		which := d.memo(line)
		err := s.insist(ctx, func(c *gozk.Conn) error { _, err := c.Sync(which); return err })
		if err == nil {
			err = s.takeMemo(ctx, which)
		}
		return struct{}{}, explainRefusal(err, "removing", which, "DELETE", path.Dir(which))
	})
	return err
}

// takeMemo deletes a memo. One may be made again with the version that is named here, so the directory is written to as well:
// a try that is late finds another version there. Whoever may not write to the directory must do without.
func (s *session) takeMemo(ctx context.Context, which string) error {
	dir := path.Dir(which)
	lost := false // a try had no answer
	for mayWrite := true; ; {
		above, err := s.toReplace(ctx, dir)
		if errors.Is(err, gozk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		old, err := s.toReplace(ctx, which)
		there := err == nil
		if err != nil && !errors.Is(err, gozk.ErrNoNode) {
			return err
		}
		mayWrite = mayWrite && above.Version != anyVersion
		if !there && !(mayWrite && lost) {
			return nil
		}
		var ops []any
		if mayWrite {
			ops = append(ops, &gozk.SetDataRequest{Path: dir, Data: above.Bytes, Version: above.Version})
		}
		if there {
			ops = append(ops, &gozk.DeleteRequest{Path: which, Version: old.Version})
		}
		refused, open, err := fetchOpen(ctx, s, func(c *gozk.Conn) (bool, error) {
			answers, err := c.Multi(ops...)
			return len(answers) > 0 && errors.Is(answers[0].Error, gozk.ErrNoAuth), err
		})
		lost = lost || open
		switch {
		case errors.Is(err, gozk.ErrBadVersion), errors.Is(err, gozk.ErrNoNode): // it was written, or taken away, meanwhile
		case mayWrite && refused:
			mayWrite = false
		default:
			return err
		}
	}
}
