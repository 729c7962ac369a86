package coord

import "context"

// Held returns the live hold of a line that ctx descends from, or nil: it came from Hold.Context or Hold.With of
// this client.
func (c *Client) Held(ctx context.Context, line string) *Hold {
	h, _ := ctx.Value(heldKey{c, line}).(*Hold)
	if h == nil || h.Err() != nil {
		return nil
	}
	return h
}

// nest returns a hold within h. It has h's node and token, ends when h does, and leaves h as it is when released.
func (h *Hold) nest(ctx context.Context) *Hold {
	n := &Hold{acquired: h.acquired, session: h.session, outer: h, place: h.place, since: h.since}
	base := context.WithValue(context.WithoutCancel(ctx), heldKey{h.acquired.client, h.acquired.line}, n)
	n.ctx, n.cancel = context.WithCancelCause(base)
	context.AfterFunc(h.ctx, func() {
		if why := context.Cause(h.ctx); why == ErrReleased {
			n.lose(lostOuter)
		} else {
			n.lose(why)
		}
	})
	return n
}
