package nats

import (
	"context"
	"sync"
)

// Listen hears what the stream publishes. All listening of the store is one subscription, which each connection has from its
// beginning.
func (s *Store) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	e := &ear{hear: hear}
	stop = sync.OnceFunc(func() { s.ears.remove(topic, e) })
	s.ears.add(topic, e)
	err = s.with(ctx, func(c *conn, known *memory) error {
		_, _, err := s.content(ctx, c, known, topic) // it may have forgotten, and then the caller has to know
		return err
	})
	if err != nil {
		stop()
		return nil, failed(ctx, err, "listen to %q", topic)
	}
	return stop, nil
}
