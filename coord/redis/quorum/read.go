package quorum

import (
	"context"

	"github.com/turnwise/turnwise/coord/register"
)

// Read asks all acceptors. It takes one trip if a majority has accepted the same; otherwise the latest is written back
// first.
func (q *Store) Read(ctx context.Context, key string) (register.Item, error) {
	a, err := q.read(ctx, key)
	return a.item(key), pkg.Failed(ctx, err, "read %q", key)
}

func (q *Store) read(ctx context.Context, key string) (accepted, error) {
	for tries := 0; ; tries++ {
		votes, err := q.look(ctx, key)
		if err != nil {
			return accepted{}, err
		}
		if tries == 2 || agree(votes) { // perhaps somebody swaps it just now
			return q.settle(ctx, key, votes)
		}
	}
}
