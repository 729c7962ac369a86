package coord_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestADeniedOpenIsDeniedForAllWhoWaitAndTriedAgainForTheNext(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var allowed atomic.Bool
		var told diary
		m := &meddler{open: func(ctx context.Context, do opens) (driver.Session, error) {
			if time.Sleep(time.Second); !allowed.Load() {
				return nil, fmt.Errorf("%w: wrong password", driver.ErrDenied)
			}
			return do(ctx)
		}}
		c := m.client(s, told.option())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				began := time.Now()
				_, err := on(c)(t.Context())
				assert.ErrorIs(t, err, coord.ErrDenied)
				assert.ErrorContains(t, err, "wrong password")
				assert.NotErrorIs(t, err, coord.ErrClosed, "the client is as good as before")
				assert.NotErrorIs(t, err, coord.ErrUnavailable)
				assert.Equal(t, time.Second, time.Since(began), "a denial is not tried again")
			})
		}
		all.Wait()
		assert.Equal(t, []string{"open failed: denied by the service: wrong password"}, told.read())

		allowed.Store(true)
		h, err := on(c)(t.Context())
		require.NoError(t, err)
		assert.Len(t, lineOf(t, s, "line"), 1)
		require.NoError(t, h.Release())
	})
}

func TestACallerWhoGivesUpDoesNotEndTheOpeningForTheOthers(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var opened atomic.Int32
		m := &meddler{open: func(ctx context.Context, do opens) (driver.Session, error) {
			opened.Add(1)
			select {
			case <-time.After(5 * time.Second):
				return do(ctx)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		c := m.client(s)
		began := time.Now()
		patient := coord.Chan(t.Context(), on(c))
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := on(c)(second)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.NotErrorIs(t, err, coord.ErrBusy, "nobody has looked at the line")
		assert.Equal(t, time.Second, time.Since(began))

		r := <-patient
		require.NoError(t, r.Err)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.EqualValues(t, 1, opened.Load())
		require.NoError(t, r.Hold.Release())
	})
}

func TestAnOpeningThatNobodyWaitsForIsGivenUp(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var opened, givenUp atomic.Int32
		m := &meddler{open: func(ctx context.Context, do opens) (driver.Session, error) {
			if opened.Add(1) > 1 {
				return do(ctx)
			}
			<-ctx.Done()
			givenUp.Add(1)
			return nil, ctx.Err()
		}}
		var told diary
		c := m.client(s, told.option())
		for _, limit := range []time.Duration{time.Second, 2 * time.Second} {
			go on(c, coord.MaxWait(limit))(t.Context())
		}
		time.Sleep(1500 * time.Millisecond)
		assert.Zero(t, givenUp.Load(), "one still waits")
		time.Sleep(time.Second)
		assert.EqualValues(t, 1, givenUp.Load())
		assert.Empty(t, told.read(), "it did not fail")
		enter(t, c).Release()
		assert.EqualValues(t, 2, opened.Load())
	})
}

func TestAServiceOutOfReachIsTriedAgainAndItsWordsAreTold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var away atomic.Bool
		away.Store(true)
		refused := errors.New("connection refused")
		var told diary
		m := &meddler{open: func(ctx context.Context, do opens) (driver.Session, error) {
			if away.Load() {
				return nil, refused
			}
			return do(ctx)
		}}
		c := m.client(s, told.option())
		_, err := on(c, coord.MaxWait(time.Second))(t.Context())
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, refused)
		_, err = c.TryAcquire(t.Context(), "line", "lock", nil, exclusive)
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.ErrorIs(t, err, refused)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's time is not up")
		said := told.read()
		assert.Greater(t, len(said), 5)
		assert.Less(t, len(said), 50, "it pauses between tries")
		assert.Equal(t, "open failed: connection refused", said[0])

		turn := coord.Chan(t.Context(), on(c))
		time.Sleep(time.Minute)
		away.Store(false)
		began := time.Now()
		r := <-turn
		require.NoError(t, r.Err)
		assert.LessOrEqual(t, time.Since(began), time.Second)
		require.NoError(t, r.Hold.Release())
	})
}

// A driver may keep trying inside Open for as long as it is given.
func TestAServiceOutOfReachIsToldOfThoughTheDriverGoesOnTrying(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var away atomic.Bool
		away.Store(true)
		refused := errors.New("connection refused")
		m := &meddler{open: func(ctx context.Context, do opens) (driver.Session, error) {
			if !away.Load() {
				return do(ctx)
			}
			<-ctx.Done()
			return nil, fmt.Errorf("%w: %w", ctx.Err(), refused)
		}}
		var told diary
		c := m.client(s, told.option())
		turn := coord.Chan(t.Context(), on(c))
		time.Sleep(time.Minute)
		said := told.read()
		assert.Greater(t, len(said), 3)
		assert.Contains(t, said[0], "connection refused")
		_, err := on(c, coord.MaxWait(time.Second))(t.Context())
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.ErrorIs(t, err, refused)
		away.Store(false)
		time.Sleep(time.Minute)
		bubble.Enters(t, turn).Release()
	})
}

func TestASessionThatComesTooLateIsClosed(t *testing.T) {
	for name, giveUp := range map[string]func(*coord.Client, context.CancelFunc){
		"its only caller has gone": func(_ *coord.Client, cancel context.CancelFunc) { cancel() },
		"the client is closed":     func(c *coord.Client, _ context.CancelFunc) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				late := make(chan driver.Session, 1)
				m := &meddler{
					open: func(ctx context.Context, do opens) (driver.Session, error) {
						session, err := do(ctx)
						if err == nil {
							late <- session
						}
						time.Sleep(5 * time.Second)
						return session, err
					},
					close: func(func() error) error { return nil }, // so that it does not end the session
				}
				c := m.client(s)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error)
				go func() {
					_, err := on(c)(ctx)
					ended <- err
				}()
				synctest.Wait()
				giveUp(c, cancel)
				assert.Error(t, <-ended)
				session := <-late
				time.Sleep(4 * time.Second)
				select {
				case <-session.Done():
					t.Error("closed before anybody knew of it")
				default:
				}
				time.Sleep(2 * time.Second)
				select {
				case <-session.Done():
				default:
					t.Error("it is left open")
				}
			})
		})
	}
}

func TestASessionThatComesAsTheClientIsClosedIsClosedToo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var late driver.Session
		var c *coord.Client
		m := &meddler{close: func(func() error) error { return nil }} // so that it does not end the session
		m.open = func(ctx context.Context, do opens) (driver.Session, error) {
			session, err := do(ctx)
			late = session
			c.Close()
			return session, err
		}
		c = m.client(s)
		_, err := on(c)(t.Context())
		assert.ErrorIs(t, err, coord.ErrClosed)
		synctest.Wait()
		select {
		case <-late.Done():
		default:
			t.Error("it is left open")
		}
	})
}

func TestAfterALossTheNextCallOpensAnotherSession(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		c := s.Client(told.option())
		lost := enter(t, c)
		s.Expire(c)
		<-lost.Context().Done()
		assert.ErrorIs(t, context.Cause(lost.Context()), coord.ErrLost)
		assert.ErrorIs(t, lost.Release(), coord.ErrLost)
		assert.Equal(t, []string{
			"session opened",
			fmt.Sprintf("line %d granted after 0s", lost.Token()),
			fmt.Sprintf("line %d lost: hold lost: the session has ended: another process, or an operator, has ended it", lost.Token()),
			"session ended",
		}, told.read())
		next := enter(t, c)
		assert.Greater(t, next.Token(), lost.Token())
		require.NoError(t, next.Release())
		assert.Equal(t, []string{
			"session opened",
			fmt.Sprintf("line %d granted after 0s", next.Token()),
			fmt.Sprintf("line %d released after 0s", next.Token()),
		}, told.read())
	})
}
