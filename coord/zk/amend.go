package zk

import (
	"context"
	"errors"
	"fmt"
	"path"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// Amend replaces the node by a plain ephemeral one with the same number, in one transaction, when its kind changes,
// since that is part of the name, and when a mere write to it could be taken for its departure: see watches. Otherwise
// it just writes the data.
func (p *place) Amend(ctx context.Context, kind string, data []byte) error {
	s, me := p.session, p.Node()
	me.Kind, me.Data = kind, data
	note := driver.EncodeNote(me.Owner, me.Data)
	if len(note) > maxBytes {
		return fmt.Errorf("%d bytes of data for %s: at most %d are allowed", len(note), me.ID, maxBytes)
	}
	now, err := p.whereIs(ctx)
	if err != nil {
		return err
	}
	c, _ := parseContender(path.Base(now))
	if c.kind == kind && !c.markable() {
		err = s.insist(ctx, func(conn *gozk.Conn) error {
			_, err := conn.Set(now, note, -1)
			return err
		})
		me.ID = now
	} else {
		c.kind, c.guid = kind, newGUID() // a path is never used again
		me.ID = p.dir + "/" + c.name()
		p.amending(me.ID)
		err = s.replace(ctx, now, me.ID, note)
	}
	if err == nil {
		p.amended(me, me.ID != now)
		s.roster.amended(p, me.ID)
	}
	return amendError(err, now)
}

// whereIs finds the path of a node whose last amendment was given up before its outcome was known.
func (p *place) whereIs(ctx context.Context) (string, error) {
	paths := p.allPaths()
	if len(paths) == 1 {
		return paths[0], nil
	}
	for _, nodePath := range paths {
		there, err := p.session.exists(ctx, nodePath)
		if err != nil || there {
			return nodePath, err
		}
	}
	return "", driver.ErrRemoved
}

// replace puts a new node in the place of the present one.
func (s *session) replace(ctx context.Context, now, next string, note []byte) error {
	err := s.insist(ctx, func(conn *gozk.Conn) error {
		_, err := conn.Multi(
			&gozk.CreateRequest{Path: next, Data: note, Acl: s.service.acl, Flags: gozk.FlagEphemeral},
			&gozk.DeleteRequest{Path: now, Version: -1},
		)
		return err
	})
	if !errors.Is(err, gozk.ErrNodeExists) && !errors.Is(err, gozk.ErrNoNode) {
		return err
	}
	// Either a try that was thought lost has been done, or the node was removed.
	there, err := s.exists(ctx, next)
	if err == nil && !there {
		err = driver.ErrRemoved
	}
	return err
}

func amendError(err error, nodePath string) error {
	if errors.Is(err, gozk.ErrNoNode) {
		return driver.ErrRemoved
	}
	return explain(err, "amending", nodePath, "WRITE on it, or the CREATE and DELETE", path.Dir(nodePath))
}

// amending records, before an amendment is sent, where it will put the node; from then on the node has both paths.
func (p *place) amending(next string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths = append(p.paths, next)
}

// amended records what the node is now. A node that was replaced is nowhere but at its new path.
func (p *place) amended(me driver.Node, replaced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node = me
	if replaced {
		p.paths, p.made = []string{me.ID}, p.session.zxids.Load()
	}
}
