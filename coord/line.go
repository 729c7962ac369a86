package coord

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Line returns the nodes of a line, in order. Their Holds says whose turn it is, for the kinds that the recipes use; of other kinds,
// only whether it is the first. Their Inside says how many callers of this client share them.
func (c *Client) Line(ctx context.Context, name string) ([]Node, error) {
	full, err := c.openName(name)
	if err != nil {
		return nil, &Error{Op: "line", Line: name, Err: err}
	}
	var nodes []Node
	err = c.request(ctx, func(ctx context.Context) (err error) {
		nodes, err = c.driver.Line(ctx, full)
		return err
	})
	if err != nil {
		return nil, &Error{Op: "line", Line: name, Err: translate(err)}
	}
	return c.inLine(name, nodes), nil
}

// inLine returns nodes that begin a line as the users of this client know them.
func (c *Client) inLine(name string, nodes []Node) []Node {
	turns, inside := rules.Turns(nodes), c.insideOf(name)
	all := slices.Clone(nodes)
	for i, n := range all {
		n.Holds, n.Line, n.Token = turns[i], name, n.Token<<TurnBits
		n.Inside = inside[n.ID]
		all[i] = readRemarks(n)
	}
	return all
}

// First returns the first node in a line, or the zero Node if there is none.
func (c *Client) First(ctx context.Context, name string) (Node, error) {
	look, err := c.look(ctx, c.life, name, 1, nil)
	if err != nil {
		return Node{}, err
	}
	return first(c.inLine(name, look.Nodes)), nil
}

func first(nodes []Node) Node {
	if len(nodes) == 0 {
		return Node{}
	}
	return nodes[0]
}

// look looks if nothing has been seen, and otherwise waits for something else. A look may take no longer than a request; a
// driver that waits reports by itself when the service is out of reach.
func (c *Client) look(ctx, life context.Context, name string, most int, seen *driver.Look) (driver.Look, error) {
	full, err := c.nameIn(life, name)
	if err != nil {
		return driver.Look{}, &Error{Op: "line", Line: name, Err: err}
	}
	var look driver.Look
	first := func(ctx context.Context) (err error) {
		look, err = c.driver.First(ctx, full, most, seen)
		return err
	}
	if seen == nil {
		err = c.request(ctx, first)
	} else {
		err = first(ctx)
	}
	if err != nil {
		return driver.Look{}, &Error{Op: "line", Line: name, Err: translate(err)}
	}
	return look, nil
}

// Watch yields the first node in a line, or the zero Node if there is none, and yields again whenever it or its data
// changes. Of changes in quick succession it may yield only the last. An error says that what was yielded before may be
// stale. The loop then goes on, unless the error is ErrDenied, ErrMissing, ErrClosed, ErrTooWeak or ErrInvalidName. It also ends
// when ctx does.
func (c *Client) Watch(ctx context.Context, name string) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		c.follow(ctx, c.life, name, 1, func(l driver.Look, err error) bool { return yield(first(c.inLine(name, l.Nodes)), err) })
	}
}

// View is a line as it stood at one time.
type View struct {
	Nodes []Node

	// Number grows with the changes of the line. Of two different views, wherever they were seen, the later one has the greater
	// number, unless the service was put back to a backup, or the line has been empty for so long that nothing is left of it.
	Number uint64
}

// linePause is the least time between two views of a line: when a thousand come at once, nobody reads the line a thousand times.
const linePause = 50 * time.Millisecond

// WatchLine yields a whole line as Line shows it, and yields again whenever a node has come or gone, or was amended. Of changes
// in quick succession it may yield only the last: there are at most twenty views a second. Errors are as in Watch.
//
// Everybody who watches reads the whole line after each change, so it is for lines of which all are of interest, such as the
// members of a group. Who waits for one lock of many needs Watch.
func (c *Client) WatchLine(ctx context.Context, name string) iter.Seq2[View, error] {
	return c.watchLine(ctx, c.life, name)
}

// watchLine is WatchLine for whoever goes on for so long.
func (c *Client) watchLine(ctx, life context.Context, name string) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		number := uint64(0)
		c.follow(ctx, life, name, driver.All, func(l driver.Look, err error) bool {
			if err != nil {
				return yield(View{}, err)
			}
			number = max(number, l.At)
			seen := time.Now()
			return yield(View{Nodes: c.inLine(name, l.Nodes), Number: number}, nil) && driverkit.Sleep(ctx, linePause-time.Since(seen)) == nil
		})
	}
}

// follow calls see with what stands first in a line, again whenever that changes, and with what is in the way of seeing it, until
// see returns false.
func (c *Client) follow(ctx, life context.Context, name string, most int, see func(driver.Look, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	var seen *driver.Look
	for tries := 0; ; {
		l, err := c.look(ctx, life, name, most, seen)
		if ctx.Err() != nil && life.Err() == nil {
			return
		}
		if ctx.Err() != nil {
			err = &Error{Op: "line", Line: name, Err: context.Cause(life)}
		}
		if !see(l, err) || IsLasting(err) {
			return
		}
		if err == nil {
			if seen != nil { // who can look may yet be unable to wait
				tries = 0
			}
			seen = &l
			continue
		}
		seen = nil // say it again when the service is back
		_ = driverkit.Sleep(ctx, driverkit.Pause(tries))
		tries++
	}
}

// Lines returns, in order, the names that begin with prefix and have somebody in line. It leaves out names that
// CheckName refuses, which others may have made at the service.
func (c *Client) Lines(ctx context.Context, prefix string) ([]string, error) {
	if c.life.Err() != nil {
		return nil, &Error{Op: "lines", Line: prefix, Err: c.noMore()}
	}
	var names []string
	err := c.request(ctx, func(ctx context.Context) (err error) {
		names, err = c.driver.Lines(ctx, c.namespace+prefix)
		return err
	})
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
		err = c.request(ctx, func(ctx context.Context) error { return c.remove(ctx, full, n) })
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
