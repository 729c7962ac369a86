package kube

import (
	"context"
	"sync"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// LosesNoNoteUnsaid says what is true of Listen.
func (s *Store) LosesNoNoteUnsaid() {}

// Listen watches the leases whose last swap has told the topic. The API server shows each change since the revision that the
// watch begins at, in order, also when the watch was cut meanwhile. So nil is told only when it does not have these changes any
// more, or when the cluster has forgotten.
func (s *Store) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	known, err := s.known.Current()
	if err != nil {
		return nil, s.failed(ctx, err, "listen to %q", topic)
	}
	w := &watch{s: s, label: s.labelOf(topic), hear: hear}
	first, err := w.begin(ctx, known)
	if err != nil {
		return nil, s.failed(ctx, err, "listen to %q", topic)
	}
	ctx, end := context.WithCancel(s.life.Context())
	if !s.life.Go(func() { w.run(ctx, first) }) {
		end()
		first.end()
		return nil, s.failed(ctx, storekit.ErrClosed, "listen to %q", topic)
	}
	return sync.OnceFunc(func() {
		end()
		w.mu.Lock()
		w.stopped = true
		w.mu.Unlock()
	}), nil
}
