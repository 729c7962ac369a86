package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Listen hears all acceptors, and believes what a majority of them says.
func (q *Store) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	stop, err = q.listen(ctx, topic, hear)
	if err != nil {
		return nil, pkg.Failed(ctx, err, "listen to %q", topic)
	}
	if _, err := q.read(ctx, topic); err != nil { // it may have forgotten, and then the caller has to know
		stop()
		return nil, pkg.Failed(ctx, err, "listen to %q", topic)
	}
	return stop, nil
}

// listen returns when a majority is heard, and the others have had a moment.
func (q *Store) listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	h := newHearsay(q.majorityIn, hear, func() time.Duration { return 50*time.Millisecond + 20*q.usual() })
	if err := q.canServe(); err != nil {
		return nil, err
	}
	life, end := context.WithCancel(q.life.Context())
	stop = sync.OnceFunc(func() {
		end()
		h.stop()
	})
	begun := make(chan error, len(q.all)) // of the first try of each; later ones tell the listener itself
	for i, a := range q.all {
		if !q.life.Go(func() { hearOne(life, a, topic, func(note []byte) { h.tell(i, note) }, begun) }) {
			stop()
			return nil, storekit.ErrClosed
		}
	}
	// Those who do not answer are heard later, and then something may have been missed.
	var failed []error
	enough := make(<-chan time.Time)
	for heard := 0; heard+len(failed) < len(q.all); {
		select {
		case err := <-begun:
			if err != nil {
				failed = append(failed, err)
			} else if heard++; heard == q.roster.Load().majority() { // enough, but with all a failure later is not noticed
				patience := time.NewTimer(100 * time.Millisecond)
				defer patience.Stop()
				enough = patience.C
			}
		case <-enough:
			return stop, nil
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		}
	}
	if len(q.all)-len(failed) >= q.roster.Load().majority() {
		return stop, nil
	}
	stop()
	return nil, joinErrors(failed)
}

// hearOne listens to one acceptor until life ends, and tries again if that fails: one that is away for an hour must count
// again when it is back, or the next failure leaves too few.
func hearOne(life context.Context, a *acceptor, topic string, hear func([]byte), begun chan<- error) {
	for tries := 0; ; tries++ {
		err := a.ready(life)
		var stop func()
		if err == nil {
			stop, err = a.Listen(life, topic, hear)
		}
		if tries == 0 {
			begun <- err
		} else if err == nil { // what was told in between was missed
			hear(nil)
		}
		if err == nil {
			<-life.Done()
			stop()
			return
		}
		if driverkit.Sleep(life, min(time.Duration(tries+1)*50*time.Millisecond, 2*time.Second)) != nil {
			return
		}
	}
}

// majorityIn returns how many servers are a majority in a term. Those of another than the present one are not known here.
func (q *Store) majorityIn(term uint64) int {
	if r := q.roster.Load(); r.term == term {
		return r.majority()
	}
	return maxServers + 1
}
