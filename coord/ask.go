package coord

import (
	"context"
	"fmt"

	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Asking has the caller ask those ahead, while it waits, to let go: why is shown to them, a line of 200 bytes at most. They hear of it
// if they look, and do as they like: see [Hold.Wanted]. Who may stand in the line may ask. Programs that are not turnwise see it as a
// first line of the node's data, in which there is so much less room beside it.
func Asking(why string) AcquireOption { return func(a *acquire) { a.says.asks = why } }

// Rank says how good a holder the caller would be, compared with others: the greater the better, and 0 if nothing is said. It
// changes nothing about the order of the line. Node.Rank shows it, for recipes in which one gives way to a better one, as
// candidates of an election do. Programs that are not turnwise see it as they see what is asked: see Asking.
func Rank(n int) AcquireOption { return func(a *acquire) { a.says.rank = n } }

// Ask asks all who stand in a line to let go, and waits until they have: it stands behind them, and leaves when its turn has come.
// Nobody has to. It returns nil if all have let go, and if ctx ends before that, its error. Meanwhile whoever comes stands behind it.
// Within a hold of the line it returns ErrHeld, and if why is empty ErrInvalid.
//
//	err := client.Ask(ctx, "nightly", "the database is to be moved")
func (c *Client) Ask(ctx context.Context, name, why string) error {
	switch {
	case c.Held(ctx, name) != nil: // it would wait for itself
		return &Error{Op: "acquire", Line: name, Err: ErrHeld}
	case why == "":
		return &Error{Op: "acquire", Line: name, Err: fmt.Errorf("%w: it does not say what it asks for", ErrInvalid)}
	}
	h, err := c.Acquire(ctx, name, rules.Lock, nil, RuleOf(rules.Lock), Asking(why))
	if err != nil {
		return err
	}
	return h.Release()
}

// Wanted waits until somebody behind asks the holder to let go (see Asking), and returns who: Node.Asks is what it says. Whoever holds
// for hours calls it on a goroutine of its own, and lets go soon, or later, or not. When the hold ends it returns why, and when ctx
// ends its error. While it waits the whole line is watched: see Client.WatchLine for what that costs.
func (h *Hold) Wanted(ctx context.Context) (Node, error) {
	// Whoever holds already, beside this one, asks no more, though its node may still say so.
	return h.Behind(ctx, func(n Node) bool { return n.Asks != "" && !n.Holds })
}

// Behind waits until somebody stands behind the holder whom is accepts, and returns the first of them. Else it is as Wanted.
func (h *Hold) Behind(ctx context.Context, is func(Node) bool) (Node, error) {
	c, line := h.acquired.client, h.acquired.line
	fail := func(err error) (Node, error) { return Node{}, &Error{Op: "line", Line: line, Err: err} }
	watching, cancel := h.With(ctx)
	defer cancel()
	for v, err := range c.watchLine(watching, context.Background(), line) { // also once Shutdown has been called
		if IsLasting(err) {
			return Node{}, err
		}
		for _, n := range v.Nodes {
			if n.Token > h.Token() && is(n) {
				return n, nil
			}
		}
	}
	if err := h.Err(); err != nil {
		return fail(err)
	}
	return fail(ctx.Err())
}
