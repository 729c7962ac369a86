package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// enter returns when a request whose answer takes time may be made: there is a connection, and it has not too many requests
// on it. So nothing piles up in the library while the service is out of reach, and keep does not mistake a long queue for a
// dead server. Each enter that succeeds must be followed by an exit.
func (s *session) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.stopped(ctx)
	}
	select {
	case s.slots <- struct{}{}:
	case <-s.life.Done():
		return s.life.Why()
	case <-ctx.Done():
		return s.stopped(ctx)
	}
	err := s.awaitUp(ctx)
	if err != nil {
		s.exit()
	}
	return err
}

func (s *session) exit() { <-s.slots }

// awaitUp returns when there is a connection.
func (s *session) awaitUp(ctx context.Context) error {
	select {
	case <-s.isUp():
	case <-s.life.Done():
	case <-ctx.Done():
	}
	return s.stopped(ctx)
}

// stopped says why a call on ctx must return; nil: it may go on. If there is no connection, it adds the latest trouble with
// the servers.
func (s *session) stopped(ctx context.Context) error {
	err := s.life.Stopped(ctx)
	if err == nil || s.life.Over() || s.connected() {
		return err
	}
	return fmt.Errorf("%w: not connected: %w", err, s.troubles.Last())
}

// ask has the library make one request and waits for the answer, or for the end of ctx or of the session: the library
// itself takes no contexts, and blocks while it is not connected.
func ask[T any](ctx context.Context, s *session, request func(*gozk.Conn) (T, error)) (T, error) {
	var none T
	if err := s.enter(ctx); err != nil {
		return none, err
	}
	replied := make(chan wire.Reply[T], 1)
	if !s.life.Go(func() {
		v, err := request(s.conn)
		s.exit()
		replied <- wire.Reply[T]{Value: v, Err: err}
	}) {
		s.exit()
		return none, s.life.Why()
	}
	return answer(ctx, s, replied)
}

// answer waits for a reply, or for the end of ctx or of the session.
func answer[T any](ctx context.Context, s *session, replied <-chan wire.Reply[T]) (T, error) {
	select {
	case r := <-replied:
		return r.Value, s.named(r.Err)
	case <-ctx.Done():
	case <-s.life.Done():
	}
	var none T
	return none, s.stopped(ctx)
}

// named returns the reason why the session ended in place of err, if the session has ended.
func (s *session) named(err error) error {
	switch {
	case err == nil:
		return nil
	case s.life.Over():
		return s.life.Why()
	case errors.Is(err, gozk.ErrSessionExpired):
		return fmt.Errorf("%w: %w", driver.ErrSessionEnded, errExpired) // the library will find out and call event
	}
	return err
}

// insist repeats a request, which must be safe to repeat, until it has an answer that counts. When ctx ends the request may go
// on, so it keeps nothing: what it finds out goes through fetch.
func (s *session) insist(ctx context.Context, request func(*gozk.Conn) error) error {
	_, err := fetch(ctx, s, func(c *gozk.Conn) (struct{}, error) { return struct{}{}, request(c) })
	return err
}

// fetch is insist for a request that finds something out.
func fetch[T any](ctx context.Context, s *session, request func(*gozk.Conn) (T, error)) (T, error) {
	return persist(ctx, s, func() (T, error) { return ask(ctx, s, request) })
}

// fetchOpen is fetch for a request that writes. open means that a try had no answer: it may have been made, or be made yet.
func fetchOpen[T any](ctx context.Context, s *session, request func(*gozk.Conn) (T, error)) (v T, open bool, err error) {
	var lost atomic.Bool
	v, err = fetch(ctx, s, func(conn *gozk.Conn) (T, error) {
		v, err := request(conn)
		if passing(err) {
			lost.Store(true)
		}
		return v, err
	})
	return v, lost.Load() || isCtx(err), err
}

// persist repeats a call until it succeeds, or fails in a way that another try would not fix.
func persist[T any](ctx context.Context, s *session, call func() (T, error)) (T, error) {
	for tries := 0; ; tries++ {
		v, err := call()
		if !passing(err) {
			return v, err
		}
		if stop := pause(ctx, tries); stop != nil {
			return v, s.life.Verdict(fmt.Errorf("%w: %w", stop, err))
		}
	}
}

// pause waits before another try.
func pause(ctx context.Context, tries int) error {
	return driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries)))
}

// passing reports whether an error is temporary. Such an error leaves open what became of the request.
func passing(err error) bool {
	switch {
	case err == nil, isCtx(err), errors.Is(err, wire.ErrTooLong), errors.Is(err, driver.ErrSessionEnded), errors.Is(err, driver.ErrDenied):
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
	return true // the network's trouble
}

// answers are the errors with which the service refuses a request, or the library does before it sends anything.
var answers = []error{
	gozk.ErrNoNode, gozk.ErrNoAuth, gozk.ErrBadVersion, gozk.ErrNoChildrenForEphemerals, gozk.ErrNodeExists,
	gozk.ErrNotEmpty, gozk.ErrInvalidACL, gozk.ErrAuthFailed, gozk.ErrAPIError, gozk.ErrBadArguments,
	gozk.ErrInvalidPath, gozk.ErrInvalidFlags, gozk.ErrReconfigDisabled, gozk.ErrShortBuffer, gozk.ErrNothing,
	errQuota, errLocalSession,
}

// What the client library has no names for.
var (
	errQuota        = errors.New("the quota that an operator has set there is used up (enforceQuota): nothing was changed")
	errLocalSession = errors.New("the servers keep this session to themselves, so it can have no nodes: they need localSessionsUpgradingEnabled=true")
)

// unimplemented reports whether the server has no containers: before 3.5.3 it refuses them, or cannot read a transaction
// with one.
func unimplemented(err error) bool {
	return err != nil && (err.Error() == "unknown error: -6" || err.Error() == "unknown error: -5")
}

func isCtx(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// explainRefusal says which permission is missing on which node, or what else is in the way for good.
func explainRefusal(err error, doing, path, permission, on string) error {
	if on == "" {
		on = path
	}
	switch {
	case errors.Is(err, gozk.ErrNoAuth):
		return fmt.Errorf("%w: %s %s needs the %s permission on %s: %w", driver.ErrDenied, doing, path, permission, on, err)
	case errors.Is(err, gozk.ErrInvalidACL):
		return fmt.Errorf("%w: %s %s: the service does not take the access rights; those for the authenticated user need WithDigestAuth: %w",
			driver.ErrDenied, doing, path, err)
	case err == nil:
	case err.Error() == "unknown error: -125":
		return fmt.Errorf("%s %s: %w", doing, path, errQuota)
	case err.Error() == "unknown error: -120":
		return fmt.Errorf("%w: %s %s: %w", driver.ErrDenied, doing, path, errLocalSession)
	case errors.Is(err, gozk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("%s %s: %s is an ephemeral node, in which nothing can be put; use another name: %w", doing, path, on, err)
	}
	return err
}
