// Package trouble is for recipes that stand in line again and again until their context ends.
package trouble

import (
	"context"
	"errors"

	"github.com/turnwise/turnwise/coord"
)

// Of returns err if it is to be told when ctx ends: something was in the way of standing in line. Nil is returned if that was
// somebody ahead, or an operator who removed the node, or if err says no more than that ctx has ended.
func Of(ctx context.Context, err error) error {
	onlyEnded := ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, coord.ErrUnavailable)
	if errors.Is(err, coord.ErrBusy) || errors.Is(err, coord.ErrRemoved) || onlyEnded {
		return nil
	}
	return err
}
