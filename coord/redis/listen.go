package redis

import "context"

// Listen subscribes to a channel. All subscriptions of the store are on one connection.
func (s *Store) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	stop, err = s.server.Listen(ctx, topic, hear)
	if err != nil {
		return nil, pkg.Failed(ctx, err, "listen to %q", topic)
	}
	if _, err := s.read(ctx, topic); err != nil { // it may have forgotten, and then the caller has to know
		stop()
		return nil, pkg.Failed(ctx, err, "listen to %q", topic)
	}
	return stop, nil
}
