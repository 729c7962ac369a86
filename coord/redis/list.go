package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/coord/register"
)

// pageSize is how many registers a listing asks for at once: they may be large, and nobody else is served meanwhile.
const pageSize = 64

func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	return pkg.Failed(ctx, s.list(ctx, prefix, yield), "list %q", prefix)
}

func (s *Store) list(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	from, to := "["+s.root+prefix, "("+s.root+prefix+"\xff" // no key has this byte
	for {
		reply, err := s.run(ctx, listScript, func(memory string) ([]string, []string) {
			return []string{s.mark, s.index}, []string{memory, from, to, strconv.Itoa(pageSize)}
		})
		if err != nil {
			return err
		}
		page, err := reply.ToArray()
		if err != nil || len(page)%3 != 1 {
			return fmt.Errorf("%w: %d parts, %w", errStrange, len(page), err)
		}
		for i := 1; i < len(page); i += 3 {
			key, err := page[i].ToString()
			if err != nil {
				return err
			}
			it, err := parse(strings.TrimPrefix(key, s.root), page[i+1], page[i+2])
			if err != nil {
				return err
			}
			if !yield(it) {
				return nil
			}
		}
		if page[0].IsNil() {
			return nil
		}
		last, err := page[0].ToString()
		if err != nil {
			return err
		}
		from = "(" + last
	}
}
