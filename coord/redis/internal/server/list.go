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

// List calls yield with what stands in each register whose key begins with prefix, and how old it is, until yield returns
// false or an error. timeAt says where in a register its time is, counted from 0; what is too short for one is left out.
func (s *Server) List(ctx context.Context, known Known, prefix string, timeAt int,
	yield func(key string, text []byte, age time.Duration) (more bool, err error)) error {
	from, to := "["+s.Root+prefix, "("+s.Root+prefix+"\xff" // no key has this byte
	for {
		reply, err := s.Run(ctx, known, listScript, []string{s.index}, []string{from, to, strconv.Itoa(PageSize), strconv.Itoa(timeAt + 1)})
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
			if more, err := yield(strings.TrimPrefix(key, s.Root), text, Age(page[i+2])); err != nil || !more {
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
