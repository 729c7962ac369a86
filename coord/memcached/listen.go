package memcached

import (
	"context"

	"github.com/turnwise/turnwise/coord/register"
)

// Listen returns ErrMute: the server has nothing to tell with.
func (s *Store) Listen(context.Context, string, func([]byte)) (stop func(), err error) {
	return nil, register.ErrMute
}
