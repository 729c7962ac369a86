package election

import (
	"context"
	"iter"

	"github.com/turnwise/turnwise/coord"
)

// Observe yields the leader, and again whenever it or its value changes. Changes that come faster than the loop takes
// them are skipped: the latest wins. An error that is ErrNoLeader says that the seat is vacant; any other that what
// was yielded before may be stale for now. The loop goes on after either, and ends when ctx does, when the client is
// closed, or when the service denies access; the last error yielded then says so.
func (e *Election) Observe(ctx context.Context) iter.Seq2[coord.Node, error] {
	return func(yield func(coord.Node, error) bool) {
		vacant := false // as was said last
		for first, err := range e.client.Watch(ctx, e.name) {
			was := vacant
			if vacant = err == nil && !stands(first); vacant {
				if was {
					continue // one who is no candidate gave way to another
				}
				first, err = coord.Node{}, e.vacant()
			}
			if !yield(first, err) {
				return
			}
		}
	}
}
