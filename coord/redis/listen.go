package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// ears hear the notes of all topics on one connection.
type ears struct {
	conn   *connection
	log    *slog.Logger
	change chan struct{} // has room for one: topics are new or abandoned
	life   context.Context
	end    context.CancelFunc
	begin  sync.Once
	done   sync.WaitGroup

	mu     sync.Mutex // held while listeners hear, so that a stopped one hears nothing more
	topics map[string]*topic
}

// topic is a channel that somebody listens to.
type topic struct {
	listeners map[*listener]struct{}
	begun     chan struct{} // closed when the server has confirmed the first subscription, or refused it
	err       error         // its refusal
}

type listener struct{ hear func(note []byte) }

func newEars(client rueidis.Client, log *slog.Logger) *ears {
	e := &ears{log: log, change: make(chan struct{}, 1), topics: make(map[string]*topic)}
	e.conn = newConnection(client, rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if t := e.topics[m.Channel]; t != nil {
			for l := range t.listeners {
				l.hear([]byte(m.Message))
			}
		}
	}})
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// Listen subscribes to a channel. All subscriptions of the store are on one connection.
func (s *Store) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	stop, err = s.ears.listen(ctx, s.channels+topic, hear)
	if err != nil {
		return nil, pkg.Failed(ctx, err, "listen to %q", topic)
	}
	if _, err := s.read(ctx, topic); err != nil { // it may have forgotten, and then the caller has to know
		stop()
		return nil, pkg.Failed(ctx, err, "listen to %q", topic)
	}
	return stop, nil
}

func (e *ears) listen(ctx context.Context, channel string, hear func([]byte)) (stop func(), err error) {
	e.begin.Do(func() { e.done.Go(e.run) })
	l := &listener{hear}
	e.mu.Lock()
	t := e.topics[channel]
	if t == nil {
		t = &topic{listeners: make(map[*listener]struct{}), begun: make(chan struct{})}
		e.topics[channel] = t
	}
	t.listeners[l] = struct{}{}
	e.mu.Unlock()
	e.changed()

	stop = sync.OnceFunc(func() {
		e.mu.Lock()
		delete(t.listeners, l)
		e.mu.Unlock()
		e.changed()
	})
	select {
	case <-t.begun:
		err = t.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.life.Done():
		err = storekit.ErrClosed
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func (e *ears) changed() {
	select {
	case e.change <- struct{}{}:
	default:
	}
}

// run keeps the server informed of which channels are wanted.
func (e *ears) run() {
	pause := time.Duration(0)
	for driverkit.Sleep(e.life, pause) == nil {
		up, err := e.conn.get(e.life)
		if err == nil {
			pause, err = 0, e.serve(up)
			up.end()
		}
		if e.life.Err() != nil {
			return
		}
		e.log.Warn("redis: the connection that hears of swaps is lost", "err", err)
		pause = min(max(2*pause, 10*time.Millisecond), time.Second)
		e.refuse(explain(err))
	}
}

// serve subscribes and unsubscribes until the connection fails.
func (e *ears) serve(up *link) error {
	subscribed := make(map[string]bool)
	for {
		more, less := e.differ(subscribed)
		if len(more) > 0 {
			ctx, cancel := context.WithTimeout(e.life, dialTimeout)
			err := up.Do(ctx, up.B().Subscribe().Channel(more...).Build()).Error()
			cancel()
			if err != nil {
				return err
			}
			e.confirm(more)
		}
		if len(less) > 0 {
			ctx, cancel := context.WithTimeout(e.life, dialTimeout)
			err := up.Do(ctx, up.B().Unsubscribe().Channel(less...).Build()).Error()
			cancel()
			if err != nil {
				return err
			}
		}
		if len(more)+len(less) > 0 {
			continue
		}
		select {
		case <-e.change:
		case <-up.down:
			return errLost
		case <-e.life.Done():
			return e.life.Err()
		}
	}
}

// differ returns which channels to ask for and which to give up, and records this in subscribed.
func (e *ears) differ(subscribed map[string]bool) (more, less []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for channel, t := range e.topics {
		switch {
		case len(t.listeners) == 0:
			delete(e.topics, channel)
		case !subscribed[channel] && len(more) < 1000:
			more = append(more, channel)
			subscribed[channel] = true
		}
	}
	for channel := range subscribed {
		if e.topics[channel] == nil {
			less = append(less, channel)
			delete(subscribed, channel)
		}
	}
	return more, less
}

// confirm tells those who wait that the listening has begun, and those who have listened before that they may have
// missed something.
func (e *ears) confirm(channels []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, channel := range channels {
		t := e.topics[channel]
		select {
		case <-t.begun:
			for l := range t.listeners {
				l.hear(nil)
			}
		default:
			close(t.begun)
		}
	}
}

// refuse tells those who wait that they cannot listen.
func (e *ears) refuse(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for channel, t := range e.topics {
		select {
		case <-t.begun:
		default:
			t.err = fmt.Errorf("subscribe: %w", err)
			close(t.begun)
			delete(e.topics, channel)
		}
	}
}

func (e *ears) close() {
	e.end()
	e.begin.Do(func() {})
	e.done.Wait()
	e.conn.close()
}
