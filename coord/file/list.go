//go:build linux || darwin

package file

import (
	"context"
	"strings"

	"github.com/turnwise/turnwise/coord/register"
)

// List reads one directory after the other. It reads the names with the directory locked: otherwise it might miss one whose
// file is exchanged meanwhile.
func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := s.enter()
	if err != nil {
		return err
	}
	defer p.leave()
	begin := beginOf(prefix)
	for i := range shards {
		l, err := p.shard(ctx, i)
		if err != nil {
			return err
		}
		names, err := l.dir.names()
		p.unlock(l)
		if err != nil {
			return trouble("list "+l.dir.path(), err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, ".") || !strings.HasPrefix(name, begin) && !strings.Contains(name, "~") {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			item, err := p.read(ctx, l, name, "")
			if err != nil {
				return err
			}
			if item.Version.IsZero() {
				continue
			}
			if strings.HasPrefix(item.Key, prefix) && !yield(item) {
				return nil
			}
		}
	}
	return p.check()
}
