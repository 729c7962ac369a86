package zk

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnwise/turnwise/coord/driver"
)

// finish makes the session over for everybody here. It says nothing to the service.
func (s *session) finish(why error) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended, s.why = true, why
	close(s.done)
	s.mu.Unlock()
	s.cancel()
	go func() {
		s.working.Wait()
		s.driver.forget(s)
		close(s.quiet)
	}()
}

// ending is why the session is over.
func (s *session) ending() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

func (s *session) farewell() { s.byeDo.Do(func() { close(s.bye) }) }

// Close is described in package driver.
func (s *session) Close(ctx context.Context) error {
	if s.over() {
		return nil
	}
	s.removeEmptyLines(ctx)
	if err := s.enter(ctx); err != nil {
		if errors.Is(err, driver.ErrSessionEnded) {
			return nil
		}
		s.Abandon()
		return fmt.Errorf("the session could not be closed at the service and stays until it times out: %w", err)
	}
	s.exit()
	s.end(ctx)
	select {
	case <-s.bye:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the service has not confirmed the end of the session: %w", ctx.Err())
	case <-s.quiet:
		select {
		case <-s.bye:
			return nil
		default:
			return errors.New("the connection broke before the service confirmed the end of the session")
		}
	}
}

// end makes the session over here and has the library say so to the service, which has until the end of ctx to confirm.
func (s *session) end(ctx context.Context) {
	s.spawn(func() {
		<-s.done
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			s.conn.Close() // takes a second or three when nobody answers
		}()
		select {
		case <-s.bye:
		case <-ctx.Done():
		}
		s.hangUp()
		<-gone
	})
	s.finish(errClosed)
}

// Abandon is described in package driver.
func (s *session) Abandon() {
	silenced := make(chan struct{})
	if !s.spawn(func() {
		<-silenced
		s.conn.Close()
	}) {
		return
	}
	s.finish(errAbandoned) // from now on there is no dialing
	s.hangUp()
	close(silenced)
}

// hangUp ends the connection. The library's goroutines end with it.
func (s *session) hangUp() {
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		w.silence()
	}
}
