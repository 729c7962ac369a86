package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// enter returns when a request may be made whose answer takes time: there is a connection, and it has not too many. So
// nothing piles up in the library while the service is out of reach, and the watchdog does not take a long queue for a
// dead server. Each enter that succeeds is followed by an exit.
func (s *session) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.given(err)
	}
	select {
	case <-s.done:
		return s.ending()
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return s.given(ctx.Err())
	}
	err := s.isUp(ctx)
	if err != nil {
		s.exit()
	}
	return err
}

// isUp returns when there is a connection.
func (s *session) isUp(ctx context.Context) error {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-up:
	case <-s.done:
	case <-ctx.Done():
	}
	return s.stopped(ctx)
}

func (s *session) exit() { <-s.slots }

// given is the error of a call whose context has ended; it says what the servers said last if none is connected.
func (s *session) given(err error) error {
	if s.over() {
		return s.ending()
	}
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-up:
		return err
	default:
		return fmt.Errorf("%w: not connected: %w", err, s.troubles.lastWords())
	}
}

// ask has the library do one request and waits for the answer, or for the end of ctx or of the session: the library
// itself knows no contexts, and blocks as long as it is not connected.
func ask[T any](ctx context.Context, s *session, request func(*gozk.Conn) (T, error)) (T, error) {
	var none T
	if err := s.enter(ctx); err != nil {
		return none, err
	}
	answered := make(chan reply[T], 1)
	if !s.spawn(func() {
		v, err := request(s.conn)
		s.exit()
		answered <- reply[T]{v, err}
	}) {
		s.exit()
		return none, s.ending()
	}
	return answer(ctx, s, answered)
}

// judge gives the end of the session the name that it has here.
func (s *session) judge(err error) error {
	if err == nil {
		return nil
	}
	if s.over() {
		return s.ending()
	}
	if errors.Is(err, gozk.ErrSessionExpired) {
		return errExpired // the library will find out and say so to event
	}
	return err
}

// insist repeats a request that may be repeated until it has an answer that counts.
func (s *session) insist(ctx context.Context, request func(*gozk.Conn) error) error {
	_, err := persist(ctx, s, func() (struct{}, error) {
		return ask(ctx, s, func(c *gozk.Conn) (struct{}, error) { return struct{}{}, request(c) })
	})
	return err
}

// persist repeats a call until it succeeds, or fails in a way that trying again does not help.
func persist[T any](ctx context.Context, s *session, call func() (T, error)) (T, error) {
	for try := 0; ; try++ {
		v, err := call()
		if !passing(err) {
			return v, err
		}
		if sleep(ctx, backOff(try)) != nil {
			var none T
			if s.over() {
				return none, s.ending()
			}
			return none, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

func backOff(try int) time.Duration {
	return min(5*time.Millisecond<<min(try, 8), 500*time.Millisecond)
}

// passing reports whether an error is trouble that passes. It leaves open what became of the request.
func passing(err error) bool {
	switch {
	case err == nil, isCtx(err), errors.Is(err, driver.ErrSessionEnded), errors.Is(err, driver.ErrDenied):
		return false
	case errors.Is(err, gozk.ErrUnknown), errors.Is(err, gozk.ErrSessionMoved),
		errors.Is(err, gozk.ErrConnectionClosed), errors.Is(err, gozk.ErrNoServer), errors.Is(err, gozk.ErrClosing):
		return true
	}
	for _, answer := range answers {
		if errors.Is(err, answer) {
			return false
		}
	}
	if code, ok := strings.CutPrefix(err.Error(), "unknown error: "); ok {
		switch code {
		case "-1", "-2", "-4", "-7", "-127": // system error, inconsistency, connection loss, timeout, throttled
			return true
		}
		return false
	}
	return true // the network's
}

// answers are the errors by which the service, or the library before it sends anything, refuses a request.
var answers = []error{
	gozk.ErrNoNode, gozk.ErrNoAuth, gozk.ErrBadVersion, gozk.ErrNoChildrenForEphemerals, gozk.ErrNodeExists,
	gozk.ErrNotEmpty, gozk.ErrInvalidACL, gozk.ErrAuthFailed, gozk.ErrAPIError, gozk.ErrBadArguments,
	gozk.ErrInvalidPath, gozk.ErrInvalidFlags, gozk.ErrReconfigDisabled, gozk.ErrShortBuffer, gozk.ErrNothing,
}

func isCtx(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// explain says what permission is missing, on that path or on another one, when that is it.
func explain(err error, doing, path, permission, on string) error {
	if on == "" {
		on = path
	}
	switch {
	case errors.Is(err, gozk.ErrNoAuth):
		return fmt.Errorf("%w: %s %s needs the %s permission on %s: %w", driver.ErrDenied, doing, path, permission, on, err)
	case errors.Is(err, gozk.ErrInvalidACL):
		return fmt.Errorf("%w: %s %s: the service does not take the access rights; those for the authenticated user need WithDigestAuth: %w",
			driver.ErrDenied, doing, path, err)
	case errors.Is(err, gozk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("%s %s: %s is an ephemeral node, in which nothing can be put; use another name: %w", doing, path, on, err)
	}
	return err
}
