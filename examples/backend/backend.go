// Package backend finds the service that the examples run on from a URL: mem:// is this process, where nothing is needed;
// all others are those of turnwise's own package backend.
package backend

import (
	"context"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
)

// Connect makes a client, each with a session of its own.
type Connect func(ctx context.Context, opts ...coord.Option) (*coord.Client, error)

// FromArgs takes the URL from a program's arguments; without one it is mem://.
func FromArgs(args []string) (Connect, error) {
	if len(args) < 2 {
		return New("mem://")
	}
	return New(args[1])
}

// New returns how to connect to the service of a URL.
func New(url string) (Connect, error) {
	if url == "mem://" {
		service := mem.New()
		return func(_ context.Context, opts ...coord.Option) (*coord.Client, error) {
			return service.Client(opts...), nil
		}, nil
	}
	service, err := backend.Parse(url)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, opts ...coord.Option) (*coord.Client, error) {
		return service.Connect(ctx, backend.WithClient(opts...))
	}, nil
}
