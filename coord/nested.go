package coord

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/driver/rules"
)

// heldKey is the key of a context's value: the holds of a client that it descends from.
type heldKey struct{ client *Client }

type heldWithin struct {
	hold *Hold
	rest *heldWithin // further out
}

// heldIn returns a context that descends from ctx and from the hold.
func (h *Hold) heldIn(ctx context.Context) context.Context {
	return h.heldInside(ctx, h.acquired.client.outside(ctx))
}

// heldInside is heldIn for who knows what is outside of ctx. It asks ctx nothing, which is the user's and may be of any kind.
func (h *Hold) heldInside(ctx context.Context, outside *heldWithin) context.Context {
	return context.WithValue(ctx, heldKey{h.acquired.client}, &heldWithin{h, outside})
}

// outside is what ctx descends from.
func (c *Client) outside(ctx context.Context) *heldWithin {
	held, _ := ctx.Value(heldKey{c}).(*heldWithin)
	return held
}

// Holds returns the live holds of this client that ctx descends from, through Hold.Context or Hold.With, the innermost
// first.
func (c *Client) Holds(ctx context.Context) (holds []*Hold) {
	for h := range c.around(ctx) {
		if h.Err() == nil && !slices.Contains(holds, h) {
			holds = append(holds, h)
		}
	}
	return holds
}

// Held is the innermost of the Holds that is of this line, or nil if there is none.
func (c *Client) Held(ctx context.Context, line string) *Hold {
	for h := range c.around(ctx) {
		if h.acquired.line == line && h.Err() == nil {
			return h
		}
	}
	return nil
}

// around yields the holds that ctx descends from, live or not, the innermost first. One may come more than once.
func (c *Client) around(ctx context.Context) iter.Seq[*Hold] {
	held := c.outside(ctx)
	return func(yield func(*Hold) bool) {
		for held := held; held != nil; held = held.rest {
			for h := held.hold; h != nil; h = h.outer {
				if !yield(h) {
					return
				}
				if h.isTurn() { // the node's own hold is nobody's
					break
				}
			}
		}
	}
}

var (
	lostOuter      = fmt.Errorf("%w: the hold around it was released", ErrLost)
	lostDowngraded = fmt.Errorf("%w: the hold around it was downgraded", ErrLost)
)

// nest returns a hold within h. It has h's node and token, ends when h does, and leaves h as it is when released.
func (h *Hold) nest(ctx context.Context, kind string, most time.Duration) (*Hold, error) {
	n := &Hold{acquired: h.acquired, session: h.session, outer: h, place: h.place, since: h.since, asks: kind, nth: h.nth}
	n.start(n.heldIn(context.WithoutCancel(ctx)), most)
	h.keep(n, n.loseWithOuter)
	// A concurrent amendment either finds it nested by now, or is seen here.
	if !rules.Covers(h.kind(), kind) {
		n.finish(ErrUpgrade)
		h.forget(n)
		return nil, ErrUpgrade
	}
	n.expires()
	return n, nil
}

// loseWithOuter ends a nested hold because the one around it has ended, for this reason.
func (h *Hold) loseWithOuter(why error) {
	if why == ErrReleased {
		why = lostOuter
	}
	h.finish(why)
}

// keep has end called when the hold ends, or at once if it has ended already. forget takes the key to undo that.
func (h *Hold) keep(key any, end func(why error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if why := h.end.Load(); why != nil {
		end(*why)
		return
	}
	if h.inside == nil {
		h.inside = make(map[any]func(error))
	}
	h.inside[key] = end
}

func (h *Hold) forget(key any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.inside, key)
}

// outermost is the hold that has the node.
func (h *Hold) outermost() *Hold {
	for h.outer != nil {
		h = h.outer
	}
	return h
}

// kind is what the line is held as. While the outcome of an amendment is open, that is the kind that it asked for,
// since others may have been let in. An announcement changes nothing.
func (h *Hold) kind() string {
	h = h.outermost()
	if open := h.openAs.Load(); open != nil {
		return *open
	}
	if k := h.place.Node().Kind; h.grantedAs == "" || k != h.grantedAs {
		return k
	}
	return h.joinedAs
}

// stands is the node as those behind may know it by now.
func (h *Hold) stands() Node {
	n := h.place.Node()
	if open := h.openAs.Load(); open != nil {
		n.Kind = *open
	} else if h.grantedAs != "" && n.Kind == h.joinedAs {
		n.Kind = h.grantedAs
	}
	return n
}

// shutsOut reports whether the line is held alone, and one with that rule would wait for that.
func (h *Hold) shutsOut(rule Rule, me Node) bool {
	return rules.Covers(h.kind(), rules.Lock) && len(rule.WaitFor(me, []Node{h.outermost().stands()})) > 0
}

// downgrade ends the nested holds that need more than kind.
func (h *Hold) downgrade(kind string) {
	h.mu.Lock()
	var nested []*Hold
	for key := range h.inside {
		if n, ok := key.(*Hold); ok {
			nested = append(nested, n)
		}
	}
	h.mu.Unlock()
	for _, n := range nested {
		if rules.Covers(kind, n.asks) {
			n.downgrade(kind)
		} else {
			n.finish(lostDowngraded)
			h.forget(n)
		}
	}
}
