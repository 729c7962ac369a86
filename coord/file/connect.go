package file

import (
	"context"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Connect returns a client on a directory. It makes the directory if there is none; the directory above must be there.
// Closing the client closes everything.
func Connect(ctx context.Context, dir string, opts ...Option) (*coord.Client, error) {
	c, err := configure(storekit.ToConnect, opts)
	if err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, &Store{config: c}, func(ctx context.Context) (*Store, error) {
		return openDir(ctx, dir, c)
	})
}
