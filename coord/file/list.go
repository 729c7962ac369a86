//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
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
			if isSpoilt(err) {
				item, err = spoilt(name, err)
			}
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

// isSpoilt reports whether a read failed since something stands in the register's place that we did not put there, or that another of the
// group lets nobody read.
func isSpoilt(err error) bool {
	for _, e := range []error{errDamaged, errNotOurs, unix.ELOOP, unix.ENXIO, unix.ESPIPE, unix.EISDIR, unix.EACCES} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// spoilt is what a list says of it: nothing, if its name does not tell the key.
func spoilt(name string, err error) (register.Item, error) {
	key, ok := keyOf(name)
	if !ok {
		return register.Item{}, nil
	}
	return storekit.Listed(key, register.Item{}, storekit.NotOurs("%v", err))
}
