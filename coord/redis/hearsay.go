package redis

import (
	"context"
	"encoding/binary"
	"math/bits"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// tag says to which proposal a note belongs: the ballot, the swap, the register, and which of the swap's notes it is.
func tag(p accepted, key string, i int) string {
	b := append([]byte(p.ballot.String()), p.content.id[:]...)
	b = binary.BigEndian.AppendUint64(b, hash(key))
	return string(append(b, byte(i)))
}

const tagSize = ballotSize + 8 + 8 + 1

// hearsay hears the acceptors, and believes a note that a majority has told for one ballot: then the swap was applied.
type hearsay struct {
	majority int
	patience func() time.Duration // with a note that too few have told

	mu      sync.Mutex // held while hear is called
	hear    func([]byte)
	stopped bool
	rumours map[string]*rumour
	told    map[string]struct{}
	order   []string          // of told
	latest  map[string]ballot // by register
}

type rumour struct {
	ballot ballot
	from   uint64 // one bit for each acceptor
	doubt  *time.Timer
}

const maxTold = 1024

func (h *hearsay) say(from int, note []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	if len(note) < tagSize {
		h.hear(nil) // lost, or not ours
		return
	}
	what, key := string(note[ballotSize:tagSize]), string(note[ballotSize+8:ballotSize+16])
	if _, told := h.told[what]; told {
		return
	}
	at := parseBallot(string(note[:ballotSize]))
	r := h.rumours[what]
	if r == nil {
		r = &rumour{ballot: at}
		r.doubt = time.AfterFunc(h.patience(), func() { h.doubted(what, r) })
		h.rumours[what] = r
	}
	if r.ballot.less(at) {
		r.ballot, r.from = at, 0
	} else if at.less(r.ballot) {
		return
	}
	r.from |= 1 << from
	if bits.OnesCount64(r.from) < h.majority {
		return
	}
	r.doubt.Stop()
	delete(h.rumours, what)
	h.told[what] = struct{}{}
	if h.order = append(h.order, what); len(h.order) > maxTold {
		delete(h.told, h.order[0])
		h.order = h.order[1:]
	}
	if at.less(h.latest[key]) {
		h.hear(nil) // a later one came first
		return
	}
	if len(h.latest) > maxTold {
		clear(h.latest)
	}
	h.latest[key] = at
	h.hear(note[tagSize:])
}

// doubted is called when too few have told a note: its swap was not applied, or others who told it were not heard.
func (h *hearsay) doubted(what string, r *rumour) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rumours[what] == r && !h.stopped {
		delete(h.rumours, what)
		h.hear(nil)
	}
}

// Listen hears all acceptors, and believes what a majority of them says.
func (q *Quorum) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
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

func (q *Quorum) listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	h := &hearsay{
		majority: q.majority(),
		patience: func() time.Duration { return 50*time.Millisecond + 20*q.usual() },
		hear:     hear,
		rumours:  make(map[string]*rumour),
		told:     make(map[string]struct{}),
		latest:   make(map[string]ballot),
	}
	q.mu.Lock()
	if err := q.canServe(); err != nil {
		q.mu.Unlock()
		return nil, err
	}
	life, end := context.WithCancel(q.life)
	begun := make(chan error, len(q.all)) // of the first try of each
	for i, a := range q.all {
		q.running.Go(func() { q.hearOne(life, a, topic, func(note []byte) { h.say(i, note) }, begun) })
	}
	q.mu.Unlock()

	stop = sync.OnceFunc(func() {
		end()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.stopped = true
		for _, r := range h.rumours {
			r.doubt.Stop()
		}
	})
	// Those who do not answer are heard later, and then something may have been missed.
	var failed []error
	enough := make(<-chan time.Time)
	for heard := 0; heard+len(failed) < len(q.all); {
		select {
		case err := <-begun:
			if err != nil {
				failed = append(failed, err)
			} else if heard++; heard == q.majority() {
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
	if len(q.all)-len(failed) >= q.majority() {
		return stop, nil
	}
	stop()
	return nil, list(failed)
}

// hearOne listens to one acceptor until life ends, and tries again if that fails.
func (q *Quorum) hearOne(life context.Context, a *acceptor, topic string, hear func([]byte), begun chan<- error) {
	for tries := 0; ; tries++ {
		err := a.ready(life)
		var stop func()
		if err == nil {
			stop, err = a.ears.listen(life, a.channels+topic, hear)
		}
		if tries == 0 {
			begun <- err
		} else if err == nil {
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
