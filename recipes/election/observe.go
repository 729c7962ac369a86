package election

import (
	"context"
	"iter"

	"github.com/turnwise/turnwise/coord"
)

// Observe yields the leader, and yields again whenever the leader or its value changes. If changes come faster than the
// loop takes them, all but the latest are skipped. An error that is ErrNoLeader says that the seat is vacant; any other
// says that what was yielded before may be stale for now. The loop goes on after either. It ends when ctx does, when
// the client is closed, or when the service denies access; in the last two cases the last error yielded says so.
func (e *Election) Observe(ctx context.Context) iter.Seq2[coord.Node, error] {
	return func(yield func(coord.Node, error) bool) {
		vacant := false // as last yielded
		for first, err := range e.client.Watch(ctx, e.name) {
			was := vacant
			if vacant = err == nil && !stands(first); vacant {
				if was {
					continue // one that is no candidate gave way to another
				}
				first, err = coord.Node{}, e.vacant()
			}
			if !yield(first, err) {
				return
			}
		}
	}
}
