//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
)

// place is a directory as we have opened it. Files in it are reached through it, not by their paths. So when somebody puts
// another directory in its place, nothing that we do in the one happens in the other.
//
// It stays open as long as somebody uses it.
type place struct {
	path   string
	memory string    // names what is remembered here
	since  time.Time // when something was forgotten; zero if nothing was
	sync   bool

	root, registers, notes *dir
	kept                   lock
	shards                 [shards]lock
	layout                 *os.File // kept open, so that no other file can have its number
	number                 fileNumber
	plain                  atomic.Bool // files cannot be exchanged here

	debts debts

	users  atomic.Int64 // one of them is the store
	forgot atomic.Bool
}

// use keeps the place open until leave is called. It reports false if it has been closed.
func (p *place) use() bool {
	for {
		n := p.users.Load()
		if n == 0 {
			return false
		}
		if p.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (p *place) leave() {
	if p.users.Add(-1) == 0 {
		p.close()
	}
}

func (p *place) close() {
	for _, d := range []*dir{p.root, p.registers, p.notes, p.kept.dir} {
		d.close() // nil if opening did not get that far
	}
	_ = p.layout.Close()
	for i := range p.shards {
		p.shards[i].dir.close()
	}
}

// check returns ErrForgot if the directory is no longer the one that we opened: somebody has removed it, moved it, or
// restored it from a backup.
func (p *place) check() error {
	if p.forgot.Load() {
		return p.forgotten()
	}
	number, err := numberAt(p.layout.Name())
	switch {
	case err == nil && number == p.number:
		return nil
	case err == nil, errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		p.forgot.Store(true)
		return p.forgotten()
	default:
		return fmt.Errorf("file: look at %s: %w", p.layout.Name(), err)
	}
}

// partHasGone returns a directory within that was moved away or replaced since it was opened, or "". Who opens the place now would lock
// another one.
func (p *place) partHasGone() string {
	for name, d := range map[string]*dir{registersDir: p.registers, notesDir: p.notes, keptDir: p.kept.dir} {
		if !p.root.has(name, d) {
			return d.path()
		}
	}
	for i := range p.shards {
		if l := &p.shards[i]; l.open.Load() && !p.registers.has(shardName(i), l.dir) {
			return l.dir.path()
		}
	}
	return ""
}

func (p *place) forgotten() error {
	return fmt.Errorf("file: %s was removed or replaced while it was in use: %w", p.path, register.ErrForgot)
}

// hasGone says why a file that has to be there is not.
func (p *place) hasGone(what string) error {
	if err := p.check(); err != nil {
		return err
	}
	return denied("%s is missing: somebody has removed it. Stop all that use %s and remove the whole directory",
		filepath.Join(p.path, what), p.path)
}
