package coord

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Line returns the nodes of a line, in order. Their Holds says whose turn it is, for the kinds that the recipes use. Their Inside
// says how many callers of this client share them.
func (c *Client) Line(ctx context.Context, name string) ([]Node, error) {
	full, err := c.openName(name)
	if err != nil {
		return nil, &Error{Op: "line", Line: name, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout())
	defer cancel()
	nodes, err := c.driver.Line(ctx, full)
	if err != nil {
		return nil, &Error{Op: "line", Line: name, Err: translate(err)}
	}
	turns, inside := rules.Turns(nodes), c.insideOf(name)
	for i, n := range nodes {
		n.Holds, n.Line, n.Token = turns[i], name, n.Token<<TurnBits
		n.Inside = inside[n.ID]
		nodes[i] = readNote(n)
	}
	return nodes, nil
}

// First returns the first node in a line, or the zero Node if there is none.
func (c *Client) First(ctx context.Context, name string) (Node, error) {
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout())
	defer cancel()
	n, err := c.first(ctx, name, nil)
	return readNote(n), err
}

// first returns the first node with its note still in its data: as seen, the driver has to get the node as it is.
func (c *Client) first(ctx context.Context, name string, seen *Node) (Node, error) {
	full, err := c.openName(name)
	if err != nil {
		return Node{}, &Error{Op: "line", Line: name, Err: err}
	}
	n, err := c.driver.First(ctx, full, seen)
	if err != nil {
		return Node{}, &Error{Op: "line", Line: name, Err: translate(err)}
	}
	if n.ID != "" {
		n.Line, n.Token, n.Holds = name, n.Token<<TurnBits, true
	}
	return n, nil
}

// firstSoon looks if nothing has been seen, and otherwise waits for a first node other than seen. A look may take no
// longer than a request; a driver that waits reports by itself when the service is out of reach.
func (c *Client) firstSoon(ctx context.Context, name string, seen *Node) (Node, error) {
	if seen == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.requestTimeout())
		defer cancel()
	}
	return c.first(ctx, name, seen)
}

// Watch yields the first node in a line, or the zero Node if there is none, and yields again whenever it or its data
// changes. Of changes in quick succession it may yield only the last. An error says that what was yielded before may be
// stale. The loop then goes on, unless the error is ErrDenied, ErrMissing, ErrClosed, ErrTooWeak or ErrInvalidName. It also ends
// when ctx does.
func (c *Client) Watch(ctx context.Context, name string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.life, cancel)()
		var seen *Node
		for tries := 0; ; {
			n, err := c.firstSoon(ctx, name, seen)
			if ctx.Err() != nil && c.life.Err() == nil {
				return
			}
			if ctx.Err() != nil {
				err = &Error{Op: "line", Line: name, Err: c.noMore()}
			}
			if !yield(readNote(n), err) || IsLasting(err) {
				return
			}
			if err == nil {
				seen, tries = &n, 0
				continue
			}
			seen = nil // say it again when the service is back
			_ = driverkit.Sleep(ctx, driverkit.Pause(tries))
			tries++
		}
	}
}

// Lines returns, in order, the names that begin with prefix and have somebody in line. It leaves out names that
// CheckName refuses, which others may have made at the service.
func (c *Client) Lines(ctx context.Context, prefix string) ([]string, error) {
	if c.life.Err() != nil {
		return nil, &Error{Op: "lines", Line: prefix, Err: c.noMore()}
	}
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout())
	defer cancel()
	names, err := c.driver.Lines(ctx, c.namespace+prefix)
	if err != nil {
		return nil, &Error{Op: "lines", Line: prefix, Err: translate(err)}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return checkName(n) != nil }) // somebody else's: no call accepts it
	for i, n := range names {
		names[i] = c.ownName(n)
	}
	return names, nil
}

// Break removes a node that Line returned, whoever owns it. It is for an operator who knows better than the node's
// session. The owner is told (ErrRemoved for a waiter, ErrLost for a holder), but the next in line may be let in before
// that. A node that has been amended since is the same contender, and is removed.
func (c *Client) Break(ctx context.Context, n Node) error {
	full, err := c.openName(n.Line)
	if err == nil {
		err = c.remove(ctx, full, n)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, driver.ErrRemoved) {
		err = ErrRemoved
	}
	return &Error{Op: "break", Line: n.Line, Err: translate(err)}
}

func (c *Client) remove(ctx context.Context, full string, n Node) error {
	n.Line, n.Token = full, n.Token>>TurnBits
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout())
	defer cancel()
	for {
		err := c.driver.Remove(ctx, n)
		if !errors.Is(err, driver.ErrRemoved) {
			return err
		}
		// It may have been amended, which gives it another ID on some services. Its token stays.
		line, look := c.driver.Line(ctx, full)
		if look != nil {
			return look
		}
		i := slices.IndexFunc(line, func(now Node) bool { return now.Token == n.Token && now.ID != n.ID })
		if i < 0 {
			return err
		}
		n = line[i]
	}
}
