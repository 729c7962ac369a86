package server

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

	mu     sync.Mutex // held while they hear, so that a stopped one hears nothing more
	topics map[string]*topic
}

// topic is a channel that somebody listens to.
type topic struct {
	ears  map[*ear]struct{}
	begun chan struct{} // closed when the server has confirmed the first subscription, or refused it
	err   error         // its refusal
}

type ear struct{ hear func(note []byte) }

func newEars(client rueidis.Client, log *slog.Logger) *ears {
	e := &ears{log: log, change: make(chan struct{}, 1), topics: make(map[string]*topic)}
	e.conn = newConnection(client, rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if t := e.topics[m.Channel]; t != nil {
			for one := range t.ears {
				one.hear([]byte(m.Message))
			}
		}
	}})
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// listen is for Server.Listen. All channels share one connection, which is made when the first is wanted.
func (e *ears) listen(ctx context.Context, channel string, hear func([]byte)) (stop func(), err error) {
	e.begin.Do(func() { e.done.Go(e.run) })
	one := &ear{hear}
	e.mu.Lock()
	t := e.topics[channel]
	if t == nil {
		t = &topic{ears: make(map[*ear]struct{}), begun: make(chan struct{})}
		e.topics[channel] = t
	}
	t.ears[one] = struct{}{}
	e.mu.Unlock()
	e.changed()

	stop = sync.OnceFunc(func() {
		e.mu.Lock()
		delete(t.ears, one)
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

// changed has run look at the topics. It never blocks: one look sees all changes so far.
func (e *ears) changed() {
	select {
	case e.change <- struct{}{}:
	default:
	}
}

// sayEvery is how often it is logged at most that the connection is lost. Whoever may publish can have the server hang up on
// those who listen, many times a second.
const sayEvery = time.Minute

// run keeps the server informed of which channels are wanted. It goes on for as long as the ears are open, whatever becomes
// of the connection: after each loss all channels are asked for again.
func (e *ears) run() {
	pause, said := time.Duration(0), time.Time{}
	for driverkit.Sleep(e.life, pause) == nil {
		up, err := e.conn.get(e.life)
		if err == nil {
			pause, err = 0, e.serve(up)
			up.end()
		}
		if e.life.Err() != nil {
			return
		}
		if time.Since(said) > sayEvery {
			e.log.Warn("redis: the connection that hears of swaps is lost", "err", err)
			said = time.Now()
		}
		pause = min(max(2*pause, 10*time.Millisecond), time.Second)
		e.refuse(explain(err))
	}
}

// serve subscribes and unsubscribes until the connection fails.
func (e *ears) serve(up *link) error {
	subscribed := make(map[string]bool) // on this connection
	for {
		more, less := e.differ(subscribed)
		if len(more) > 0 {
			if err := e.tell(up, up.B().Subscribe().Channel(more...).Build()); err != nil {
				return err
			}
			e.confirm(more)
		}
		if len(less) > 0 {
			if err := e.tell(up, up.B().Unsubscribe().Channel(less...).Build()); err != nil {
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

// tell sends a command, and waits until the server has done it.
func (e *ears) tell(up *link, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(e.life, dialTimeout)
	defer cancel()
	return up.Do(ctx, command).Error()
}

// differ returns which channels to ask for and which to give up, and records this in subscribed.
func (e *ears) differ(subscribed map[string]bool) (more, less []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for channel, t := range e.topics {
		switch {
		case len(t.ears) == 0:
			delete(e.topics, channel)
		case !subscribed[channel] && len(more) < 1000: // a command that is too long would hold up others
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
			for one := range t.ears {
				one.hear(nil)
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
	e.begin.Do(func() {}) // if it has not begun, it does not any more
	e.done.Wait()
	e.conn.close()
}
