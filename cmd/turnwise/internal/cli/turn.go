//go:build linux || darwin

package cli

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/multi"
)

// turn is what a command runs under: a hold of one line, or of several.
type turn interface {
	Context() context.Context
	Deadline() time.Time
	Err() error
	Release() error
	Token() coord.Token
}

// together is a hold of several lines. Its token is that of the line that names it.
type together struct {
	*multi.Hold
	name string
}

func (t together) Token() coord.Token { return t.Hold.Token(t.name) }

// lent is a hold that somebody else releases, once the command has ended.
type lent struct {
	*coord.Hold
	over <-chan struct{} // when he wants it back; nil: he waits for as long as it takes
}

func (lent) Release() error { return nil }

// names are all lines that are asked for; the first one names the request.
func (r *request) names() []string {
	return append(append([]string{r.name}, r.with...), r.withShared...)
}

// askForAll makes the request be for several locks at once.
func askForAll(r *request, shared bool) {
	askForLock(r, shared)
	r.acquire = func(ctx context.Context, c *coord.Client, try bool) (turn, error) {
		var locks []multi.Option
		add := func(name string, shared bool) {
			if shared {
				locks = append(locks, multi.Read(name))
			} else {
				locks = append(locks, multi.Write(name))
			}
		}
		add(r.name, shared)
		for _, name := range r.with {
			add(name, false)
		}
		for _, name := range r.withShared {
			add(name, true)
		}
		take := multi.New(c, locks...).Lock
		if try {
			take = multi.New(c, locks...).TryLock
		}
		h, err := take(ctx)
		if err != nil {
			return nil, err
		}
		return together{h, r.name}, nil
	}
}

// heldBy returns what a hold of ours holds, line by line.
func (w *waiter) heldBy(hold turn) (all []held) {
	for _, name := range w.names() {
		token := hold.Token()
		if t, several := hold.(together); several {
			token = t.Hold.Token(name)
		}
		all = append(all, held{name, w.to.ID(), token})
	}
	return all
}
