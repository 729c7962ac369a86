package zk

import (
	"context"
	"errors"
	"fmt"
	"path"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// Amend is described in package driver. A kind is part of the name, so for another kind a plain ephemeral node with the
// same number takes the node's place, in one transaction. So it is for other data too, where a write to the node
// could be taken for its departure: see watches. Elsewhere the data are just written.
func (s *session) Amend(ctx context.Context, me driver.Node) (driver.Node, error) {
	note := driver.EncodeNote(me.Owner, me.Data)
	if len(note) > maxBytes {
		return me, fmt.Errorf("%d bytes of data for %s: at most %d are allowed", len(note), me.ID, maxBytes)
	}
	st := s.standingAs(&me)
	now, err := s.whereIs(ctx, st)
	if err != nil {
		return me, err
	}
	c, ok := parseContender(path.Base(now))
	if !ok {
		return me, fmt.Errorf("%q is not the path of a contender", me.ID)
	}
	if c.kind == me.Kind && !c.markable() {
		err = s.insist(ctx, func(conn *gozk.Conn) error {
			_, err := conn.Set(now, note, -1)
			return err
		})
		me.ID = now
		return me, amendError(err, now)
	}
	c.kind, c.guid = me.Kind, newGUID() // a path is never used again
	next := st.dir + "/" + c.name()
	s.amending(st, next)
	if err := s.replace(ctx, now, next, note); err != nil {
		return me, amendError(err, now)
	}
	st.amended(next, s.zxids.last())
	me.ID = next
	return me, nil
}

// whereIs finds the path of a node whose last amendment was given up with its outcome open.
func (s *session) whereIs(ctx context.Context, st *standing) (string, error) {
	paths := st.paths()
	if len(paths) == 1 {
		return paths[0], nil
	}
	for _, p := range paths {
		there, err := s.exists(ctx, p)
		if err != nil || there {
			return p, err
		}
	}
	return "", driver.ErrRemoved
}

// replace puts one node in the place of another.
func (s *session) replace(ctx context.Context, now, next string, note []byte) error {
	err := s.insist(ctx, func(conn *gozk.Conn) error {
		_, err := conn.Multi(
			&gozk.CreateRequest{Path: next, Data: note, Acl: s.driver.acl, Flags: gozk.FlagEphemeral},
			&gozk.DeleteRequest{Path: now, Version: -1},
		)
		return err
	})
	if !errors.Is(err, gozk.ErrNodeExists) && !errors.Is(err, gozk.ErrNoNode) {
		return err
	}
	// A try that was thought lost was done. Or the node was removed.
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

// amending takes down, before it is sent, where an amendment will put the node; from then on it has both paths.
func (s *session) amending(st *standing, next string) {
	st.mu.Lock()
	if st.names[len(st.names)-1] != next {
		st.names = append(st.names, next)
		st.known = append(st.known, next)
	}
	known := st.known
	st.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range known {
		s.standing[p] = st
	}
}

// amended takes down that the node is there. Older paths still lead to it, for those who know no other.
func (st *standing) amended(next string, made int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.names, st.made = []string{next}, made
}
