package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// earshot is a connection on which a store hears what is told. It is not that of the requests: whoever may tell can have the server
// send more than the way to us takes, and an answer that holds live by must not wait behind that.
type earshot struct {
	nc   *natsgo.Conn
	over context.Context // ends with the connection
}

const (
	// mostUnheard is how much of what is told may wait here, in bytes.
	mostUnheard = 8 << 20

	// steadyFor is how long an earshot lasts that nobody floods. After a shorter one the next is longer in coming.
	steadyFor = 10 * time.Second
)

// hear makes an earshot at the server that a connection leads to.
func (s *Store) hear(c *conn) (*earshot, error) {
	e := &earshot{}
	over, end := context.WithCancelCause(c.over)
	e.over = over
	nc, err := s.connect(over, end, func(err error) {
		switch {
		case errors.Is(err, natsgo.ErrSlowConsumer):
			s.ears.missed()
		case errors.Is(err, natsgo.ErrPermissionViolation): // the right to hear was taken away, and the subscription with it
			end(err)
		}
	})
	if err != nil {
		end(err)
		return nil, err
	}
	e.nc = nc
	if run := nc.ConnectedServerId(); run != c.run {
		err = fmt.Errorf("the server is %.100q, and was %.100q", run, c.run)
	} else {
		err = s.subscribe(e)
	}
	if err != nil {
		end(err)
		nc.Close()
		return nil, err
	}
	return e, nil
}

func (s *Store) subscribe(e *earshot) error {
	sub, err := e.nc.Subscribe(s.toldSubject(), func(m *natsgo.Msg) { s.ears.told(m.Header.Get(notesHeader)) })
	if err == nil {
		err = sub.SetPendingLimits(natsgo.DefaultSubPendingMsgsLimit, mostUnheard)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(e.over, dialFor)
		defer cancel()
		err = e.nc.FlushWithContext(ctx) // the server answers when it knows of the subscription
	}
	if over := context.Cause(e.over); over != nil { // that a right is lacking ends the connection, which the library says may otherwise
		err = over
	}
	if last := e.nc.LastError(); err == nil && errors.Is(last, natsgo.ErrPermissionViolation) {
		err = last
	}
	return err
}

// keepHearing makes another earshot when the one that there is, if any, is over, as long as the connection lasts.
func (s *Store) keepHearing(c *conn, e *earshot) {
	for tries := 0; ; tries++ {
		if e != nil {
			began := time.Now()
			<-e.over.Done()
			e.nc.Close()
			if time.Since(began) > steadyFor {
				tries = 0
			}
		}
		if driverkit.Sleep(c.over, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			return
		}
		var err error
		if e, err = s.hear(c); err != nil {
			s.Log.Debug("nats: nothing is heard of swaps, trying on", "err", storekit.OneLine(err))
			continue
		}
		s.ears.missed()
	}
}
