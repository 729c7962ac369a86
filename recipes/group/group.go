// Package group knows which processes are there. Each joins a group with a few bytes about itself, such as its address, and is a
// member until it releases that, or its session ends. Everybody can list the members, and can watch who comes and goes.
//
// To the other recipes a member is a reader of the line: whoever locks the same name for writing waits until all members have left,
// and those who come meanwhile stand behind him. So give a group a name of its own.
package group

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Group is a name and a client. It holds no state and does no I/O until asked; make one wherever you need it.
type Group struct {
	client *coord.Client
	name   string
}

// New returns the group of that name.
func New(c *coord.Client, name string) *Group { return &Group{c, name} }

var member = coord.RuleOf(rules.Reader)

// Join makes the caller a member, with data that all who look can read. It is a member until Release, or until the hold is lost:
// watch its Context, and join again if it ends. A process may join several times, and is then several members.
func (g *Group) Join(ctx context.Context, data []byte) (*coord.Hold, error) {
	return g.client.Acquire(ctx, g.name, rules.Reader, data, member, coord.Anew())
}

// Do joins, runs fn and leaves. fn's context ends with the membership or with ctx. See coord.Do for the error: it is coord.ErrLost,
// or joined with that, if the membership did not last until fn had returned.
func (g *Group) Do(ctx context.Context, data []byte, fn func(ctx context.Context, h *coord.Hold) error) error {
	return coord.Do(ctx, func(ctx context.Context) (*coord.Hold, error) { return g.Join(ctx, data) }, fn)
}

// Update changes what a member says about itself. If no answer comes it returns coord.ErrUnsettled: then others may see the old data
// or the new, until Update is called again.
func (g *Group) Update(ctx context.Context, h *coord.Hold, data []byte) error {
	fail := func(err error) error { return &coord.Error{Op: "amend", Line: g.name, Err: err} }
	if h == nil {
		return fail(fmt.Errorf("%w: the hold is nil", coord.ErrInvalid))
	}
	if err := h.Err(); err != nil {
		return fail(err)
	}
	if g.client.Held(h.Context(), g.name) != h || h.Node().Kind != rules.Reader { // a lock of that name would let others in
		return fail(fmt.Errorf("%w: it is no member of this group, or of another client", coord.ErrInvalid))
	}
	return h.Amend(ctx, rules.Reader, data)
}

// View is who belonged to the group at one time.
type View struct {
	// Members are in the order in which they joined, which is the same for all who look. Token tells a member from all others that
	// ever were, Data is what it says about itself.
	Members []coord.Node

	// Number grows with the changes of the group. See coord.View.
	Number uint64
}

// Has reports whether a member of ours is there. A member that does not find itself has been removed, or its session has ended: it will
// soon hear of it.
func (v View) Has(h *coord.Hold) bool {
	return slices.ContainsFunc(v.Members, func(n coord.Node) bool { return n.Token == h.Token() })
}

// Members returns the members as they are now.
func (g *Group) Members(ctx context.Context) ([]coord.Node, error) {
	all, err := g.client.Line(ctx, g.name)
	return members(all), err
}

// Watch yields who belongs to the group now, and again whenever a member has come, gone or changed what it says. Of changes in quick
// succession it may yield only the last. An error says that what was yielded before may be stale; the loop goes on, unless the
// error is one that coord.Client.WatchLine ends with. It also ends when ctx does.
//
// Each who watches reads the whole group after a change, at most twenty times a second. On etcd that is one read for a thousand members,
// and so it is on the stores. On ZooKeeper it is the list of their names, and a read for each one who is new or says something
// else; at first one for each member, and a watch.
func (g *Group) Watch(ctx context.Context) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		for v, err := range g.client.WatchLine(ctx, g.name) {
			if !yield(View{members(v.Nodes), v.Number}, err) {
				return
			}
		}
	}
}

// members leaves out whoever stands in the line for another recipe, and who waits behind such a one.
func members(all []coord.Node) []coord.Node {
	return slices.DeleteFunc(all, func(n coord.Node) bool { return n.Kind != rules.Reader || !n.Holds })
}
