package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// page is how many registers List asks for at a time.
const page = 32

// mostKeys is how many registers List takes the server's word for. A test has it take less.
var mostKeys = 1 << 20

// List asks which subjects there are, and then for the message of each. A consumer would be quicker, but passes over a register
// that is swapped meanwhile: its old message has gone then, and its new one comes too late.
func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	err := s.with(ctx, func(c *conn, known *memory) error { return s.list(ctx, c, known, prefix, yield) })
	return failed(ctx, err, "list %q", prefix)
}

func (s *Store) list(ctx context.Context, c *conn, known *memory, prefix string, yield func(register.Item) bool) error {
	keys, now, err := s.keys(ctx, c, known, prefix)
	if err != nil {
		return err
	}
	type found struct {
		it  register.Item
		at  stand
		err error
	}
	for len(keys) > 0 {
		some := keys[:min(len(keys), page)]
		keys = keys[len(some):]
		all := make([]found, len(some))
		var asking sync.WaitGroup
		for i, key := range some {
			asking.Go(func() {
				f := &all[i]
				f.it, f.at, f.err = s.content(ctx, c, known, key)
				f.it, f.err = storekit.Listed(key, f.it, f.err)
			})
		}
		asking.Wait()
		for _, f := range all {
			switch {
			case f.err != nil:
				return f.err
			case f.it.Version.IsZero():
				continue
			}
			if !f.at.since.IsZero() {
				f.it.Age = max(0, now.Sub(f.at.since))
			}
			if !yield(f.it) {
				return nil
			}
		}
	}
	return nil
}

// mostPages is how many pages List asks for before it gives up. A test has smaller pages than the server's, of a hundred thousand.
const mostPages = 64

// keys returns those that have a message, and when that was so. The server gives a page of what there is when it is asked, in order. What
// has gone since the last page moves all others up, and those at the seam would be in neither. So each page begins a little before the
// last one ended, and has to reach back to that.
func (s *Store) keys(ctx context.Context, c *conn, known *memory, prefix string) (keys []string, now time.Time, err error) {
	filter := known.registers(s.root) + ".>"
	if kind, own := kindOf(prefix); own {
		filter = known.registers(s.root) + "." + kind + ".*"
	}
	offset, back, last := 0, 0, ""
	for range mostPages {
		info, err := s.still(ctx, c, known, map[string]any{"subjects_filter": filter, "offset": offset})
		if err != nil {
			return nil, now, err
		}
		if now.IsZero() {
			now = info.Now
		}
		subjects := slices.Sorted(maps.Keys(info.State.Subjects))
		if offset > 0 && (len(subjects) == 0 || subjects[0] > last) {
			offset, back = max(0, offset-back), 2*back
			continue
		}
		for _, subject := range subjects {
			if key, ok := known.keyOf(s.root, subject); ok && subject > last && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		if offset+len(subjects) > mostKeys {
			return nil, now, fmt.Errorf("the server has more than %d registers", mostKeys)
		}
		if len(subjects) == 0 || offset+len(subjects) >= info.Total {
			return keys, now, nil
		}
		last = max(last, subjects[len(subjects)-1])
		back = max(len(subjects)/10, 1)
		offset += max(len(subjects)-back, 1)
	}
	return nil, now, errors.New("the registers change all the time while they are listed")
}
