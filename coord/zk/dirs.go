package zk

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	gozk "github.com/go-zookeeper/zk"
)

// makeDir makes a line's directory and those above it, where they are missing. They are containers, which the service
// removes once they have become empty. They are plain nodes if the service has no containers, and also with Kazoo's names:
// Kazoo's Lock checks only once that its directory is there, and fails if it has gone since. Where there are rights to
// protect, the root stays: whoever made it again would decide who may do what in it.
func (s *session) makeDir(ctx context.Context, dir string) error {
	for {
		err := s.makeOne(ctx, dir)
		switch {
		case err == nil, errors.Is(err, gozk.ErrNodeExists):
			return nil
		case errors.Is(err, gozk.ErrNoNode) && path.Dir(dir) != "/":
			if err := s.makeDir(ctx, path.Dir(dir)); err != nil {
				return err
			}
		default:
			return explain(err, "creating", dir, "CREATE", path.Dir(dir))
		}
	}
}

func (s *session) makeOne(ctx context.Context, dir string) error {
	stays := !s.service.openToAll && strings.HasPrefix(s.service.root+"/", dir+"/")
	err := s.insist(ctx, func(c *gozk.Conn) error {
		if s.service.way != Kazoo && !stays && !s.service.plainDirs.Load() {
			_, err := c.CreateContainer(dir, nil, gozk.FlagContainer, s.service.acl)
			if !unimplemented(err) {
				return err
			}
			s.service.log.Info("the service has no container nodes, so directories are plain ones")
			s.service.plainDirs.Store(true)
		}
		_, err := c.Create(dir, nil, gozk.FlagPersistent, s.service.acl)
		return err
	})
	if err == nil && !stays && s.service.plainDirs.Load() {
		s.mu.Lock()
		s.lines[dir] = struct{}{}
		s.mu.Unlock()
	}
	return err
}

// unimplemented reports whether the server has no containers: before 3.5.3 it refuses them, and before 3.5 its answer is
// empty.
func unimplemented(err error) bool {
	return err != nil && (err.Error() == "unknown error: -6" || errors.Is(err, gozk.ErrShortBuffer))
}

// removeEmptyLines removes the plain directories that this session made and that are empty, inner ones first.
func (s *session) removeEmptyLines(ctx context.Context) {
	s.mu.Lock()
	dirs := make([]string, 0, len(s.lines))
	for d := range s.lines {
		dirs = append(dirs, d)
	}
	clear(s.lines)
	s.mu.Unlock()
	slices.SortFunc(dirs, func(a, b string) int { return strings.Compare(b, a) })
	for _, d := range dirs {
		if ctx.Err() != nil {
			return
		}
		_, _ = ask(ctx, s, func(c *gozk.Conn) (struct{}, error) { return struct{}{}, c.Delete(d, -1) })
	}
}
