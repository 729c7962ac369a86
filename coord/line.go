package coord

import (
	"context"
	"errors"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/rules"
)

// Line returns who stands in a line, in order. Holds tells those whose turn it is, for the kinds of the recipes.
func (c *Client) Line(ctx context.Context, name string) ([]Node, error) {
	full, err := c.fullName(name)
	if err != nil {
		return nil, &Error{Op: "line", Line: name, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.driver.RequestTimeout())
	defer cancel()
	nodes, err := c.driver.Line(ctx, full)
	if err != nil {
		return nil, &Error{Op: "line", Line: name, Err: translate(err)}
	}
	for i, n := range nodes {
		nodes[i].Holds = len(rules.For(n.Kind)(n, nodes[:i])) == 0
		nodes[i].Line = name
	}
	return nodes, nil
}

// Lines returns the names, in order, that begin with prefix and have somebody in line.
func (c *Client) Lines(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.driver.RequestTimeout())
	defer cancel()
	names, err := c.driver.Lines(ctx, c.namespace+prefix)
	if err != nil {
		return nil, &Error{Op: "lines", Line: prefix, Err: translate(err)}
	}
	for i, n := range names {
		names[i] = c.ownName(n)
	}
	return names, nil
}

// Break removes a node, as Line returned it, whoever owns it: for an operator who knows better than its session. Its
// owner is told (ErrRemoved for a waiter, ErrLost for a holder), but the next in line may be let in first.
func (c *Client) Break(ctx context.Context, n Node) error {
	full, err := c.fullName(n.Line)
	if err == nil {
		line := n.Line
		n.Line = full
		ctx, cancel := context.WithTimeout(ctx, c.driver.RequestTimeout())
		defer cancel()
		if err = c.driver.Remove(ctx, n); err == nil {
			return nil
		}
		n.Line = line
	}
	if errors.Is(err, driver.ErrRemoved) {
		err = ErrRemoved
	}
	return &Error{Op: "break", Line: n.Line, Err: translate(err)}
}
