package kube

import (
	"context"
	"net/http"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	const server = "https://127.0.0.1:1"
	drive := func(ctx context.Context, opts ...Option) error {
		_, err := New(ctx, http.DefaultClient, server, "default", opts...)
		return err
	}
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect: func(ctx context.Context, opts ...Option) error {
			_, err := Connect(ctx, "default", append(opts, WithServer(server))...)
			return err
		},
		Open: func(ctx context.Context, opts ...Option) error {
			_, err := Open(ctx, "default", append(opts, WithServer(server))...)
			return err
		},
		New:        drive,
		WithClient: WithClient, WithTTL: WithTTL, WithLongestTTL: WithLongestTTL,
		LongestAtOpen: true,
	})
	storecheck.Refused(t, drive(within(t, 0), WithTokenFile("/token")), coord.ErrInvalid, "New is given a client")
}
