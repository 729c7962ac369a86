package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/turnwise/turnwise/coord/register"
)

// maxValue is the largest value. Redis takes 512 MB, but a value holds up everybody else long before it is that large.
const maxValue = 8 << 20

func (s *Store) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	it, err := s.swap(ctx, w)
	return it, pkg.Failed(ctx, err, "swap %q", w.Key)
}

func (s *Store) swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if len(w.Value) > maxValue {
		return register.Item{}, fmt.Errorf("%w: it has %d bytes, and %d are the most", register.ErrTooLarge, len(w.Value), maxValue)
	}
	reserve := "0"
	if w.Reserve > 0 && !w.By.IsZero() {
		reserve = strconv.FormatInt(max(1, w.Reserve.Microseconds()), 10)
	}
	args := make([]string, 6, 6+2*len(w.Notes))
	args[1], args[2], args[3], args[4], args[5] = version(w.Old), version(w.Next), string(w.By[:]), reserve, string(w.Value)
	for _, n := range w.Notes {
		args = append(args, s.channels+n.Topic, string(n.Text))
	}
	reply, err := s.run(ctx, swapScript, func(memory string) ([]string, []string) {
		args[0] = memory
		return []string{s.mark, s.index, s.root + w.Key}, args
	})
	if err != nil {
		return register.Item{}, err
	}
	now := register.Item{Key: w.Key}
	if !w.Next.IsZero() {
		now.Value, now.Version = w.Value, w.Next
	}
	if reply.IsInt64() {
		return now, nil
	}
	parts, err := reply.ToArray()
	if err == nil && len(parts) == 1 {
		now.Age = age(parts[0])
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
