package docs

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/once"
)

// scheduled is what scheduling.md shows.
func scheduled(ctx context.Context, client *coord.Client, slot int64, report func(context.Context, coord.Token) error) error {
	job := once.New(client, "nightly", once.AtMostOnce)
	ran, err := job.Do(ctx, slot, func(ctx context.Context, h *coord.Hold) error {
		return report(ctx, h.Token())
	})
	if ran || err != nil {
		return err
	}
	err = job.Run(ctx, once.Every(time.Hour), once.RunLast, func(ctx context.Context, slot time.Time, h *coord.Hold) error {
		return report(ctx, h.Token())
	})
	return err
}

var _ = scheduled
