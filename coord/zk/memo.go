package zk

import (
	"context"
	"errors"
	"path"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// memos is the directory of the memos. No line has a segment of this name: a percent sign is always followed by two digits.
// A line's own directory goes when it is empty, and a memo must not keep it.
func (c *config) memos() string { return c.root + "/%memo" }

func (c *config) memo(line string) string { return c.memos() + "/" + encodeSegment(line, false) }

// Remember writes the memo, in one transaction that asks whether the node stands.
func (p *place) Remember(ctx context.Context, memo []byte) error {
	s := p.session
	to := s.service.memo(p.Node().Line)
	if err := s.vet(ctx, s.service.memos(), 0); err != nil && !errors.Is(err, gozk.ErrNoNode) {
		return err
	}
	for there := true; ; {
		now, latest, err := p.whereIs(ctx)
		if err != nil {
			return err
		}
		stands, err := fetch(ctx, s, func(c *gozk.Conn) (bool, error) {
			answers, err := c.Multi(&gozk.CheckVersionRequest{Path: now, Version: -1}, s.service.writing(to, memo, there))
			return len(answers) == 0 || answers[0].Error == nil, err
		})
		switch {
		case errors.Is(err, gozk.ErrNoNode) && !stands && latest:
			p.gone()
			return driver.ErrRemoved
		case errors.Is(err, gozk.ErrNoNode) && !stands: // an earlier amendment, which got no answer, has since moved it
		case errors.Is(err, gozk.ErrNoNode) && memo == nil:
			return nil // there is none
		case errors.Is(err, gozk.ErrNoNode) && there:
			there = false
		case errors.Is(err, gozk.ErrNoNode):
			if err := s.makeMemos(ctx); err != nil {
				return err
			}
		case errors.Is(err, gozk.ErrNodeExists):
			there = true
		default:
			return explainRefusal(err, "writing", to, "WRITE or CREATE", path.Dir(to))
		}
	}
}

// writing is what makes the memo be this.
func (c *config) writing(to string, memo []byte, there bool) any {
	switch {
	case memo == nil:
		return &gozk.DeleteRequest{Path: to, Version: -1}
	case there:
		return &gozk.SetDataRequest{Path: to, Data: memo, Version: -1}
	}
	return &gozk.CreateRequest{Path: to, Data: memo, Acl: c.acl, Flags: gozk.FlagPersistent}
}

// makeMemos makes the directory of the memos.
func (s *session) makeMemos(ctx context.Context) error {
	if err := s.makeDir(ctx, s.service.memos()); err != nil {
		return err
	}
	return s.vet(ctx, s.service.memos(), 0)
}

func (d *service) Memo(ctx context.Context, line string) ([]byte, error) {
	return withSession(ctx, d, func(s *session) ([]byte, error) {
		from := d.memo(line)
		if err := s.vet(ctx, d.memos(), 0); errors.Is(err, gozk.ErrNoNode) {
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
	})
}

func (d *service) Forget(ctx context.Context, line string) error {
	_, err := withSession(ctx, d, func(s *session) (struct{}, error) {
		which := d.memo(line)
		err := s.insist(ctx, func(c *gozk.Conn) error { return c.Delete(which, -1) })
		if errors.Is(err, gozk.ErrNoNode) {
			err = nil
		}
		return struct{}{}, explainRefusal(err, "removing", which, "DELETE", path.Dir(which))
	})
	return err
}
