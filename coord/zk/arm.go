package zk

import (
	"errors"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// wish is what somebody wants to be told of a node.
type wish struct {
	*watch
	aspect aspect
}

// arm sees to it, by one request, that watches are set for all that is wished for. Whatever happened since that
// transaction rings at once. It does not wait for the answer; after a reconnect, or trouble, everybody is rung who waits,
// and asks again.
func (s *session) arm(since int64, wishes ...wish) {
	t := &s.watches
	t.mu.Lock()
	epoch := t.epoch
	var asked []asking
	var paths [aspects][]string
	for _, w := range wishes {
		// Between the two halves of a departure there is nothing to ask.
		if set := &w.settings[w.aspect]; !w.gone && !w.marked && !set.tells(since) {
			set.ask(since)
			asked = append(asked, asking{w, w.changes})
			paths[w.aspect] = append(paths[w.aspect], w.path)
		}
	}
	t.mu.Unlock()
	if len(asked) == 0 {
		return
	}
	s.spoken.Load().send(watchRequest(since, paths, func(err error) {
		t.settle(asked, epoch, err)
		if err != nil && !errors.Is(err, gozk.ErrConnectionClosed) {
			time.AfterFunc(backOff(4), func() { t.ring(asked) })
		}
	}))
}

// asking is a wish on its way.
type asking struct {
	wish
	changes int // of the node until then
}

// settle takes down that a request for watches was answered.
func (t *watches) settle(asked []asking, epoch uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if epoch != t.epoch {
		return // nothing is set any more
	}
	for _, a := range asked {
		set := &a.settings[a.aspect]
		set.asked--
		// What was told between the request and its answer may have used the watch up.
		set.set = set.set || err == nil && a.changes == a.watch.changes
		t.drop(a.watch)
	}
}

func (t *watches) ring(asked []asking) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range asked {
		a.watch.ring()
	}
}
