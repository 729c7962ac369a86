package zk

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

// atOnce is how many reads for one look are under way together.
const atOnce = 16

// Line is described in package driver.
func (d *Driver) Line(ctx context.Context, line string) ([]driver.Node, error) {
	return withSession(ctx, d, func(s *session) ([]driver.Node, error) {
		dir := d.path(line)
		for {
			l, err := s.freshChildren(ctx, dir)
			if errors.Is(err, gozk.ErrNoNode) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			listed := contenders(l.names)
			nodes := make([]driver.Node, len(listed))
			gone := make([]bool, len(listed))
			err = forEach(len(listed), func(i int) error {
				n := listed[i].node(line, dir, l.born)
				var err error
				nodes[i], gone[i], err = s.read(ctx, n)
				return err
			})
			if err != nil {
				return nil, err
			}
			// One that was amended between the list and the read has gone from its path, not from the line.
			if slices.Contains(gone, true) && len(listed) > 0 {
				if again, err := s.children(ctx, dir); err == nil && replaced(listed, gone, again.names) {
					continue
				}
			}
			left := nodes[:0]
			for i, n := range nodes {
				if !gone[i] {
					left = append(left, n)
				}
			}
			return left, nil
		}
	})
}

// replaced reports whether one that has gone stands in the list under another name.
func replaced(listed []listed, gone []bool, names []string) bool {
	for _, name := range names {
		c, ok := parseContender(name)
		if !ok {
			continue
		}
		for i, l := range listed {
			if gone[i] && l.seq == c.seq && l.name != name {
				return true
			}
		}
	}
	return false
}

// read fills in what a node says of itself.
func (s *session) read(ctx context.Context, n driver.Node) (_ driver.Node, gone bool, err error) {
	data, err := persist(ctx, s, func() ([]byte, error) {
		return ask(ctx, s, func(c *gozk.Conn) ([]byte, error) {
			data, _, err := c.Get(n.ID)
			return data, err
		})
	})
	if errors.Is(err, gozk.ErrNoNode) {
		return n, true, nil
	}
	if err != nil {
		return n, false, explain(err, "reading", n.ID, "READ", "")
	}
	n.Owner, n.Data = driver.DecodeNote(data)
	return n, false, nil
}

// forEach calls f for 0 to n-1, several at once, and returns the first error.
func forEach(n int, f func(i int) error) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error
	places := make(chan struct{}, atOnce)
	for i := range n {
		places <- struct{}{}
		mu.Lock()
		failed := first != nil
		mu.Unlock()
		if failed {
			break
		}
		all.Go(func() {
			defer func() { <-places }()
			if err := f(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		})
	}
	all.Wait()
	return first
}

// Lines is described in package driver. It walks through the directories level by level, from the one that all names
// with the prefix have in common.
func (d *Driver) Lines(ctx context.Context, prefix string) ([]string, error) {
	start := "" // no line: the root
	if cut := strings.LastIndexByte(prefix, '/'); cut >= 0 {
		if start = prefix[:cut]; coord.CheckName(start) != nil {
			return nil, nil // no name begins like that
		}
	}
	return withSession(ctx, d, func(s *session) ([]string, error) {
		if err := s.insist(ctx, func(c *gozk.Conn) error { _, err := c.Sync("/"); return err }); err != nil {
			return nil, err
		}
		var found []string
		for level := []string{start}; len(level) > 0; {
			var mu sync.Mutex
			var below []string
			err := forEach(len(level), func(i int) error {
				used, inner, err := s.inside(ctx, level[i])
				mu.Lock()
				defer mu.Unlock()
				if used {
					found = append(found, level[i])
				}
				below = append(below, inner...)
				return err
			})
			if err != nil {
				return nil, err
			}
			level = slices.DeleteFunc(below, func(name string) bool { return !strings.HasPrefix(name, prefix) })
		}
		slices.Sort(found)
		return slices.DeleteFunc(found, func(name string) bool { return !strings.HasPrefix(name, prefix) }), nil
	})
}

// inside tells whether anybody stands in a line, and which names are nested in it.
func (s *session) inside(ctx context.Context, line string) (used bool, inner []string, err error) {
	dir := s.driver.root
	if line != "" {
		dir = s.driver.path(line)
	}
	top := dir == ""
	if top {
		dir = "/"
	}
	l, err := s.children(ctx, dir)
	if errors.Is(err, gozk.ErrNoNode) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	for _, name := range l.names {
		if _, ok := parseContender(name); ok {
			used = line != ""
		} else if segment, ok := decodeSegment(name, top); ok && line == "" {
			inner = append(inner, segment)
		} else if ok {
			inner = append(inner, line+"/"+segment)
		}
	}
	return used, inner, nil
}

// Remove is described in package driver.
func (d *Driver) Remove(ctx context.Context, n driver.Node) error {
	_, err := withSession(ctx, d, func(s *session) (struct{}, error) {
		if _, ok := parseContender(path.Base(n.ID)); !ok || path.Dir(n.ID) != d.path(n.Line) {
			return struct{}{}, driver.ErrRemoved // no such node was ever in that line
		}
		lost := false
		err := s.insist(ctx, func(c *gozk.Conn) error {
			err := c.Delete(n.ID, -1)
			if lost && errors.Is(err, gozk.ErrNoNode) {
				return nil // by the try that had no answer, for all we know
			}
			lost = lost || passing(err)
			return err
		})
		if errors.Is(err, gozk.ErrNoNode) {
			err = driver.ErrRemoved
		}
		return struct{}{}, explain(err, "removing", n.ID, "DELETE", path.Dir(n.ID))
	})
	return err
}
