package zk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// Amend writes the data. If the kind changes, which is part of the name, it replaces the node with a plain ephemeral one
// that has the same number, in one transaction.
func (p *place) Amend(ctx context.Context, kind string, data []byte) error {
	me := p.Node()
	same := me.Kind == kind && bytes.Equal(me.Data, data)
	me.Kind, me.Data = kind, data
	card := driver.EncodeCard(me.Owner, me.Data)
	if len(card) > maxBytes {
		return fmt.Errorf("%w: %d bytes of data for %s: at most %d are allowed", driver.ErrUnchanged, len(card), me.ID, maxBytes)
	}
	for {
		now, latest, err := p.whereIs(ctx)
		if err != nil {
			return err
		}
		same = same && !p.isOpen()
		err = p.amendAt(ctx, now, me, card)
		if same && errors.Is(err, gozk.ErrNoAuth) {
			err = p.stands(ctx, me)
		}
		err = p.amendError(err, now)
		if !errors.Is(err, driver.ErrRemoved) {
			return err
		}
		if latest {
			p.gone()
			return err
		}
		// An earlier amendment, which got no answer, has since moved it.
	}
}

// stands asks a majority of the servers whether a node that is to stay as it is is there. That needs no rights: a refusal
// says that it is.
func (p *place) stands(ctx context.Context, me driver.Node) error {
	err := p.session.insist(ctx, func(conn *gozk.Conn) error {
		_, err := conn.Multi(&gozk.CheckVersionRequest{Path: me.ID, Version: -1})
		return err
	})
	if err == nil || errors.Is(err, gozk.ErrNoAuth) {
		p.amended(me, false, p.versionOf(me.ID))
		return nil
	}
	return err
}

// whereIs finds the path of a node whose last amendment was given up before its outcome was known. latest means that the
// node is there or nowhere.
func (p *place) whereIs(ctx context.Context) (now string, latest bool, err error) {
	paths := p.allPaths()
	last := len(paths) - 1
	for _, nodePath := range paths[:last] {
		there, err := p.session.exists(ctx, nodePath)
		if err != nil || there {
			return nodePath, false, err
		}
	}
	return paths[last], true, nil
}

// amendAt amends the node where it stands.
func (p *place) amendAt(ctx context.Context, now string, me driver.Node, card []byte) error {
	c, _ := parseContender(path.Base(now))
	if c.kind == me.Kind {
		me.ID = now
		version, err := p.atVersion(ctx, now, func(version int32) (int32, error) {
			return change(ctx, p, func(conn *gozk.Conn) (int32, error) {
				stat, err := conn.Set(now, card, version)
				if err != nil {
					return 0, err
				}
				return stat.Version, nil
			})
		})
		if err == nil {
			p.amended(me, false, version)
		}
		return err
	}
	written := c.amendedByWriting()
	c.kind, c.guid = me.Kind, newGUID() // a path is never used again
	me.ID = p.dir + "/" + c.name()
	p.amending(me.ID)
	err := p.replace(ctx, now, me.ID, card, written)
	switch {
	case err == nil:
		p.amended(me, true, 0)
		p.session.roster.amended(p, me.ID)
	case errors.Is(err, driver.ErrRemoved), p.refused(err):
		p.notAmended(me.ID)
	}
	return err
}

// atVersion writes to the node where it stands, with the version that it has as far as we know. If it has another one, an
// earlier try has been made after all, of this amendment or of one that was given up. Then it writes over that, once more if
// need be: from then on the service refuses whatever else is still on its way.
func (p *place) atVersion(ctx context.Context, now string, request func(version int32) (int32, error)) (int32, error) {
	for at := p.versionOf(now); ; {
		version, err := request(at)
		if !errors.Is(err, gozk.ErrBadVersion) {
			return version, err
		}
		stands, err := p.session.toReplace(ctx, now)
		if err != nil {
			return 0, err
		}
		at = stands.Version
	}
}

// versionOf returns the version of the node at one of its paths. It may have grown, but the node never had a later one.
func (p *place) versionOf(nodePath string) int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.node.ID == nodePath {
		return p.version
	}
	return 0
}

// change has the node changed. If a try had no answer, it is open from then on what the node is.
func change[T any](ctx context.Context, p *place, request func(*gozk.Conn) (T, error)) (T, error) {
	v, open, err := fetchOpen(ctx, p.session, request)
	if open {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open = true
	}
	return v, err
}

func (p *place) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// refused reports whether the service has refused an amendment, and no earlier try can have made it.
func (p *place) refused(err error) bool {
	switch {
	case err == nil, isCtx(err), passing(err), p.isOpen(),
		errors.Is(err, gozk.ErrNoNode), errors.Is(err, driver.ErrRemoved), errors.Is(err, driver.ErrSessionEnded):
		return false
	}
	return true
}

// replace puts a new node in the place of the present one. With written it also writes to the present one, for those who
// watch it: see watches.
func (p *place) replace(ctx context.Context, now, next string, card []byte, written bool) error {
	_, err := p.atVersion(ctx, now, func(version int32) (int32, error) {
		var ops []any
		if written {
			ops = append(ops, &gozk.SetDataRequest{Path: now, Version: version})
			if version != anyVersion {
				version++
			}
		}
		ops = append(ops,
			&gozk.CreateRequest{Path: next, Data: card, Acl: p.session.service.acl, Flags: gozk.FlagEphemeral},
			&gozk.DeleteRequest{Path: now, Version: version})
		return change(ctx, p, func(conn *gozk.Conn) (int32, error) {
			_, err := conn.Multi(ops...)
			return 0, err
		})
	})
	if !errors.Is(err, gozk.ErrNodeExists) && !errors.Is(err, gozk.ErrNoNode) {
		return err
	}
	// Either an earlier try that seemed lost has succeeded, or the node was removed.
	there, err := p.session.exists(ctx, next)
	if err == nil && !there {
		err = driver.ErrRemoved
	}
	return err
}

func (p *place) amendError(err error, nodePath string) error {
	if errors.Is(err, gozk.ErrNoNode) {
		return driver.ErrRemoved
	}
	const needed = "WRITE permission on it and, to change its kind, the CREATE and DELETE"
	said := explainRefusal(err, "amending", nodePath, needed, path.Dir(nodePath))
	if p.refused(err) {
		said = fmt.Errorf("%w: %w", said, driver.ErrUnchanged)
	}
	return said
}

// amending records where an amendment will put the node, before it is sent. From then on the node has both paths, and
// nobody knows which transaction makes the new one.
func (p *place) amending(next string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths, p.made = append(p.paths, next), math.MaxInt64
}

// notAmended records that an amendment has not been made and never will be.
func (p *place) notAmended(next string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths = slices.DeleteFunc(p.paths, func(nodePath string) bool { return nodePath == next })
}

// amended records what the node is now, for certain. A node that was replaced is only at its new path.
func (p *place) amended(me driver.Node, replaced bool, version int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node, p.open, p.version = me, false, version
	if replaced {
		p.paths, p.made = []string{me.ID}, p.session.zxids.Load()
	}
}
