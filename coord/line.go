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

// Line returns who stands in a line, in order. Holds tells those whose turn it is, for the kinds of the recipes.
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
	turns := rules.Turns(nodes)
	for i, n := range nodes {
		nodes[i].Holds = turns[i]
		nodes[i].Line, nodes[i].Token = name, n.Token<<TurnBits
	}
	return nodes, nil
}

// First returns the first node in a line, or the zero Node if there is none.
func (c *Client) First(ctx context.Context, name string) (Node, error) {
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout())
	defer cancel()
	return c.first(ctx, name, nil)
}

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

// firstSoon looks, or waits for another one than was seen. To look may not take longer than a request; a driver that waits says
// by itself when the service is out of reach.
func (c *Client) firstSoon(ctx context.Context, name string, seen *Node) (Node, error) {
	if seen == nil {
		return c.First(ctx, name)
	}
	return c.first(ctx, name, seen)
}

// Watch yields the first node in a line, or the zero Node if there is none, and again whenever it or its data changes;
// of changes that come fast, only the last. An error says that what was yielded before may be stale. The loop then goes on,
// unless the error is ErrDenied, ErrClosed, ErrTooWeak or ErrInvalidName; it ends with ctx, too.
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
			if !yield(n, err) || lasting(err) {
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

func lasting(err error) bool {
	for _, l := range []error{ErrDenied, ErrClosed, ErrTooWeak, ErrInvalidName} {
		if errors.Is(err, l) {
			return true
		}
	}
	return false
}

// Lines returns the names, in order, that begin with prefix and have somebody in line. Names that CheckName refuses, which
// others may have made at the service, are left out.
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
	names = slices.DeleteFunc(names, func(n string) bool { return checkName(n) != nil }) // somebody else's: no call takes it
	for i, n := range names {
		names[i] = c.ownName(n)
	}
	return names, nil
}

// Break removes a node, as Line returned it, whoever owns it: for an operator who knows better than its session. Its
// owner is told (ErrRemoved for a waiter, ErrLost for a holder), but the next in line may be let in first. A node that was
// amended since is the same contender.
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
