package zk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// atOnce is how many reads run at the same time for one Line or Lines.
const atOnce = 16

func (d *service) Line(ctx context.Context, line string) ([]driver.Node, error) {
	return withSession(ctx, d, func(s *session) ([]driver.Node, error) {
		for {
			nodes, gone, err := s.readLine(ctx, line)
			if errors.Is(err, gozk.ErrNoNode) {
				return nil, nil
			}
			if err != nil || len(gone) == 0 {
				return nodes, err
			}
			// A node that was amended between the list and the read has gone from its path, not from the line.
			l, err := s.children(ctx, d.path(line))
			if err != nil || !slices.ContainsFunc(gone, func(name string) bool { return amendedIn(l.Names, name) }) {
				return nodes, nil
			}
		}
	})
}

// readLine lists a line and reads its nodes. gone are the names of those that left meanwhile.
func (s *session) readLine(ctx context.Context, line string) (nodes []driver.Node, gone []string, err error) {
	dir := s.service.path(line)
	l, err := s.freshChildren(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	nodes, _, gone, err = s.readNodes(ctx, listedNodes(contenders(l.Names), line, dir, l.Born), s.show)
	return nodes, gone, err
}

func listedNodes(all []listed, line, dir string, born int64) []driver.Node {
	nodes := make([]driver.Node, len(all))
	for i, l := range all {
		nodes[i] = l.node(line, dir, born)
	}
	return nodes
}

// readNodes reads nodes that were listed, each as show does. last is the latest transaction that wrote one of them. gone are the names of those that have left.
func (s *session) readNodes(ctx context.Context, all []driver.Node, show func(context.Context, *driver.Node) (last int64, gone bool, err error)) (nodes []driver.Node, last int64, gone []string, err error) {
	went, written := make([]bool, len(all)), make([]int64, len(all))
	room := driverkit.NewRoom(s.service.lineBytes)
	err = forEach(len(all), func(i int) (err error) {
		written[i], went[i], err = show(ctx, &all[i])
		all[i] = room.Keep(all[i])
		return err
	})
	if err != nil {
		return nil, 0, nil, err
	}
	for i, n := range all {
		last = max(last, written[i])
		if went[i] {
			gone = append(gone, path.Base(n.ID))
		} else {
			nodes = append(nodes, n)
		}
	}
	return nodes, last, gone, nil
}

// forEach calls f for 0 to n-1, several at a time, and returns the first error.
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

// mostLines is how many directories Lines looks into. Each is a request.
const mostLines = 1 << 20

// Lines walks through the directories level by level, from the one that all names with the prefix have in common. No two
// directories stand for the same name, so it reaches each line once.
func (d *service) Lines(ctx context.Context, prefix string) ([]string, error) {
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
		left := mostLines
		for level := []string{start}; len(level) > 0; {
			if left -= len(level); left < 0 {
				return nil, fmt.Errorf("there are more than %d directories: ask for a longer prefix than %q", mostLines, prefix)
			}
			var mu sync.Mutex
			var below []string
			err := forEach(len(level), func(i int) error {
				used, inner, err := s.inside(ctx, level[i])
				if level[i] != start && (errors.Is(err, gozk.ErrNoAuth) || errors.Is(err, wire.ErrTooLong)) {
					used, err = true, nil // a neighbour has made it like that, and hides no other line by it
				}
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
	dir := s.service.root
	if line != "" {
		dir = s.service.path(line)
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
	for _, name := range l.Names {
		if _, ok := parseContender(name); ok {
			used = line != ""
			continue
		}
		nested, ok := decodeSegment(name, top)
		if ok && line != "" {
			nested = line + "/" + nested
		}
		if ok && coord.CheckName(nested) == nil {
			inner = append(inner, nested)
		}
	}
	return used, inner, nil
}

func (d *service) Remove(ctx context.Context, n driver.Node) error {
	_, err := withSession(ctx, d, func(s *session) (struct{}, error) {
		if _, ok := parseContender(path.Base(n.ID)); !ok || path.Dir(n.ID) != d.path(n.Line) {
			return struct{}{}, driver.ErrRemoved // that line never had such a node
		}
		lost := false
		_, err := persist(ctx, s, func() (struct{}, error) {
			_, err := ask(ctx, s, func(c *gozk.Conn) (struct{}, error) { return struct{}{}, c.Delete(n.ID, -1) })
			lost = lost || passing(err)
			return struct{}{}, err
		})
		if lost && errors.Is(err, gozk.ErrNoNode) { // as far as we know, by the try that got no answer; or it has moved
			l, look := s.freshChildren(ctx, path.Dir(n.ID))
			switch {
			case look != nil && !errors.Is(look, gozk.ErrNoNode):
				err = look
			case look != nil || !amendedIn(l.Names, path.Base(n.ID)):
				err = nil
			}
		}
		switch {
		case errors.Is(err, gozk.ErrNoNode):
			err = driver.ErrRemoved
		case errors.Is(err, gozk.ErrNotEmpty): // whose it is may say that nobody else takes away what is in there
			err = fmt.Errorf("%w: removing %s: somebody has put something into it: have who may, or a superuser, run deleteall %[2]s in zkCli: %w",
				driver.ErrDenied, n.ID, err)
		}
		return struct{}{}, explainRefusal(err, "removing", n.ID, "DELETE", path.Dir(n.ID))
	})
	return err
}
