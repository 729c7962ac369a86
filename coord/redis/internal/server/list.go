package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PageSize is how many registers a listing asks for at once: they may be large, and nobody else is served meanwhile.
const PageSize = 64

// Layout says where in a register, counted from 0, its time is, 16 digits. Gone is where eight bytes are that are zero if the register
// counts as empty, and need not be listed; -1: nowhere. What is too short for a time, too long or no text is not listed either, or with
// Strange as "?".
type Layout struct {
	Time, Gone int
	Strange    bool
}

// List calls yield with what stands in each register whose key begins with prefix, and how old it is, until yield returns
// false or an error. at says where in a register things are.
func (s *Server) List(ctx context.Context, known Known, prefix string, at Layout,
	yield func(key string, text []byte, age time.Duration) (more bool, err error)) error {
	from, to := "["+s.Root+prefix, "("+s.Root+prefix+"\xff" // no key has this byte
	strange := "0"
	if at.Strange {
		strange = "1"
	}
	for {
		reply, err := s.Run(ctx, known, listScript, []string{s.index},
			[]string{from, to, strconv.Itoa(PageSize), strconv.Itoa(at.Time + 1), strconv.Itoa(at.Gone + 1), strange})
		if err != nil {
			return err
		}
		page, err := reply.ToArray()
		if err != nil || len(page)%3 != 1 {
			return fmt.Errorf("%w: %d parts, %w", ErrStrange, len(page), err)
		}
		for i := 1; i < len(page); i += 3 {
			key, err := page[i].ToString()
			if err != nil {
				return err
			}
			text, err := page[i+1].AsBytes()
			if err != nil {
				return err
			}
			if more, err := yield(strings.TrimPrefix(key, s.Root), text, Micros(page[i+2])); err != nil || !more {
				return err
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
