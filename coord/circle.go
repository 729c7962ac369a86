package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	mostLooked = 8           // lines of the caller's client that are looked at for a circle
	circleFor  = time.Second // how long that may take
)

// explain looks for what a wait that ran out did not see. Its context is the caller's.
func (a *acquire) explain(ctx context.Context, err error) error {
	var e *Error
	if a.maxWait > 0 && a.maxWait != forever && ctx.Err() == nil && errors.Is(err, ErrBusy) && errors.As(err, &e) {
		a.nameCircle(ctx, e)
	}
	return err
}

// nameCircle is for a call whose MaxWait has run out. If the one who has the line waits for what this client holds, neither goes on
// before one gives up, so the error says that rather than that the line is busy. It costs a look at the line and one at each line
// that the client holds; whoever holds nothing looks at nothing.
func (a *acquire) nameCircle(ctx context.Context, e *Error) {
	held := a.holdsElsewhere()
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(a.maxWait, circleFor))
	defer cancel()
	ahead, err := a.Line(ctx, a.line)
	if err != nil {
		return
	}
	has := make(map[process]Node) // who has the line that was asked for
	for _, n := range ahead {
		if p := processOf(n.Owner); n.Holds && p != (process{}) && p != processOf(a.owner) {
			has[p] = n
		}
	}
	if len(has) == 0 {
		return
	}
	for line, mine := range held {
		nodes, err := a.Line(ctx, line)
		if err != nil {
			return
		}
		at := slices.IndexFunc(nodes, func(n Node) bool { return slices.ContainsFunc(mine, func(h *Hold) bool { return h.Node().ID == n.ID }) })
		if at < 0 {
			continue
		}
		for _, n := range nodes[at+1:] {
			if blocker, ok := has[processOf(n.Owner)]; ok && !n.Holds {
				e.Blocker, e.Circle = blocker, line
				e.Err = fmt.Errorf("%w: each waits for the other, since this client has %q", e.Err, shorten(line))
				return
			}
		}
	}
}

// holdsElsewhere returns what this client holds in other lines.
func (a *acquire) holdsElsewhere() map[string][]*Hold {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Client.session == nil {
		return nil
	}
	held := make(map[string][]*Hold)
	for line, holds := range a.Client.session.lines {
		if line != a.line && len(held) < mostLooked {
			held[line] = slices.Clone(holds)
		}
	}
	return held
}

// process is what tells one Owner from another.
type process struct {
	host string
	pid  int
}

func processOf(o Owner) process {
	if o.Host == "" {
		return process{}
	}
	return process{o.Host, o.PID}
}
