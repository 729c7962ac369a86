package redis

import (
	"context"
	"strconv"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
)

// Swap is one script: it compares, writes, and tells the notes, or does nothing.
func (s *Store) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	it, err := s.swap(ctx, w)
	return it, pkg.Failed(ctx, err, "swap %q", w.Key)
}

func (s *Store) swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if err := server.CheckValue(w.Value); err != nil {
		return register.Item{}, err
	}
	reserve := "0" // nothing can be kept for a nameless one
	if w.Reserve > 0 && !w.By.IsZero() {
		reserve = strconv.FormatInt(max(1, w.Reserve.Microseconds()), 10)
	}
	args := make([]string, 0, 5+2*len(w.Notes))
	args = append(args, version(w.Old), version(w.Next), string(w.By[:]), reserve, string(w.Value))
	for _, n := range w.Notes {
		args = append(args, s.server.Channel(n.Topic), string(n.Text))
	}
	keys := []string{s.server.Index(), s.server.Root + w.Key}
	if w.Clock { // as renewals ask
		keys = append(keys, s.server.Renewals())
	}
	in, _ := s.known.Current() // or the swap fails
	reply, err := s.run(ctx, swapScript, keys, args)
	if err != nil {
		return register.Item{}, err
	}
	now := register.Item{Key: w.Key}
	if !w.Next.IsZero() {
		now.Value, now.Version = w.Value, w.Next
	}
	if reply.IsInt64() { // swapped just now
		now.Clock = server.Micros(reply)
		return now, nil
	}
	parts, err := reply.ToArray()
	if err == nil && len(parts) == 2 { // renewed just now
		n, _ := parts[1].AsInt64()
		s.server.Renewed(s.known, in, n)
		now.Clock = server.Micros(parts[0])
		return now, nil
	}
	if err == nil && len(parts) == 1 { // an earlier try was applied
		now.Age = server.Micros(parts[0])
		return now, nil
	}
	it, err := item(w.Key, reply)
	if err == nil {
		err = register.ErrConflict
	}
	return it, err
}

// version is how a version is sent: nothing for that of an empty register.
func version(v register.Version) string {
	if v.IsZero() {
		return ""
	}
	return string(v[:])
}
