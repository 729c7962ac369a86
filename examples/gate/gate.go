// Package gate is a recipe that turnwise does not come with: a gate that stays shut while anybody holds it shut. Any
// number may do so at once; a caller that wants to pass waits until all who shut the gate before it have let go.
package gate

import (
	"context"

	"github.com/turnwise/turnwise/coord"
)

// Gate is a gate with a name, reached through a client.
type Gate struct {
	client *coord.Client
	name   string
}

// New returns the gate of that name.
func New(c *coord.Client, name string) *Gate { return &Gate{c, name} }

// Shut shuts the gate at once, and keeps it shut until the hold is released.
func (g *Gate) Shut(ctx context.Context) (*coord.Hold, error) {
	return g.client.Acquire(ctx, g.name, "shut", nil, coord.Rule{
		WaitFor: func(coord.Node, []coord.Node) []coord.Node { return nil },
	}, coord.Anew())
}

// Pass waits until nobody ahead holds the gate shut. Callers of Pass do not wait for each other.
func (g *Gate) Pass(ctx context.Context) error {
	h, err := g.client.Acquire(ctx, g.name, "pass", nil, coord.Rule{
		Sight: coord.Sight{Ignore: []string{"pass"}},
		WaitFor: func(_ coord.Node, ahead []coord.Node) []coord.Node {
			for i := len(ahead) - 1; i >= 0; i-- {
				if ahead[i].Kind != "pass" {
					return ahead[i : i+1]
				}
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	return h.Release()
}
