package coord_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

func TestOneAtATimeInTheOrderOfTheLine(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var inside atomic.Int32
		var served []int
		var last coord.Token
		var all sync.WaitGroup
		for i := range 20 {
			c := s.Client()
			all.Go(func() {
				err := coord.Do(t.Context(), on(c), func(_ context.Context, h *coord.Hold) error {
					assert.EqualValues(t, 1, inside.Add(1), "somebody else is inside")
					defer inside.Add(-1)
					assert.Greater(t, h.Token(), last)
					last, served = h.Token(), append(served, i)
					time.Sleep(time.Second)
					return nil
				})
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		all.Wait()
		assert.Len(t, served, 20)
		assert.True(t, slices.IsSorted(served), "served out of turn: %v", served)
	})
}

// silent makes a session look as if it had not been renewed for too long, and as renewed again.
type silent struct{ atomic.Bool }

func (s *silent) deadline(of driver.Session) time.Time {
	if s.Load() {
		return time.Now().Add(-time.Millisecond)
	}
	return of.Deadline()
}

// pastDeadline has a client's turn come while the service has been silent for too long.
func pastDeadline(t *testing.T, s *mem.Service, m *meddler, opts ...coord.Option) (*coord.Client, *silent, <-chan coord.Result) {
	t.Helper()
	var out silent
	m.deadline = out.deadline
	holder := enter(t, s.Client())
	c := m.client(s, opts...)
	turn := queue(t, c)
	out.Store(true)
	require.NoError(t, holder.Release())
	time.Sleep(3 * time.Second)
	bubble.Waits(t, turn)
	require.Len(t, lineOf(t, s, "line"), 1, "it keeps its place")
	return c, &out, turn
}

func TestATurnThatComesPastTheDeadlineIsTakenOnceTheServiceIsHeard(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var amended []string
		m := &meddler{amend: func(_ context.Context, kind string, data []byte, do func() error) error {
			amended = append(amended, kind+string(data))
			return do()
		}}
		_, silence, turn := pastDeadline(t, s, m)
		at := lineOf(t, s, "line")[0]
		assert.Empty(t, amended, "asked before there was an answer to be had")
		silence.Store(false)
		time.Sleep(time.Second)
		h := bubble.Enters(t, turn)
		require.NoError(t, h.Err())
		assert.Equal(t, at.Token, h.Token())
		assert.Equal(t, []string{"lock"}, amended, "it did not make sure that its node stands")
		require.NoError(t, h.Release())
	})
}

func TestATurnThatComesPastTheDeadlineIsNotTakenByOneThatWasRemoved(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		_, silence, turn := pastDeadline(t, s, &meddler{}, told.option())
		require.True(t, s.Remove(lineOf(t, s, "line")[0]))
		next := enter(t, s.Client()) // it may: nobody is in line any more
		told.read()
		silence.Store(false)
		time.Sleep(time.Second)
		r := <-turn
		assert.ErrorIs(t, r.Err, coord.ErrRemoved)
		assert.Nil(t, r.Hold)
		var e *coord.Error
		require.ErrorAs(t, r.Err, &e)
		assert.Zero(t, e.Blocker, "nobody was in the way any more")
		lines := told.read()
		require.Len(t, lines, 1, "it was granted beside the next one: %v", lines)
		assert.Contains(t, lines[0], "gave up")
		require.NoError(t, next.Err())
		require.NoError(t, next.Release())
	})
}

// Leave frees what a driver keeps of a place.
func TestAWaiterThatWasRemovedLeavesAllTheSame(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h := enter(t, s.Client())
		left := 0
		m := &meddler{leave: func(_ context.Context, held bool, do func() error) error {
			assert.False(t, held)
			left++
			return do()
		}}
		turn := queue(t, m.client(s))
		require.True(t, s.Remove(lineOf(t, s, "line")[1]))
		r := <-turn
		assert.ErrorIs(t, r.Err, coord.ErrRemoved)
		synctest.Wait()
		assert.Equal(t, 1, left)
		require.NoError(t, h.Release())
	})
}

func TestATurnThatComesPastTheDeadlineIsLostWithItsSession(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := &meddler{}
		var told diary
		c, silence, turn := pastDeadline(t, s, m, told.option())
		place := lineOf(t, s, "line")[0]
		behind := queue(t, s.Client())
		s.Expire(m.under)
		next := bubble.Enters(t, behind)
		silence.Store(false)
		bubble.Waits(t, turn)
		line := lineOf(t, s, "line")
		require.Len(t, line, 2, "it joins again, at the tail")
		assert.Equal(t, next.Token(), line[0].Token)
		assert.Greater(t, line[1].Token, line[0].Token)
		assert.Contains(t, told.read(), fmt.Sprintf("line %d lost its place", place.Token))
		require.NoError(t, next.Release())
		h := bubble.Enters(t, turn)
		assert.Equal(t, line[1].ID, h.Node().ID)
		require.NoError(t, h.Release())
		require.NoError(t, c.Close())
	})
}

func TestATurnThatComesPastTheDeadlineIsGivenUpAsUnavailable(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var out silent
		m := &meddler{deadline: out.deadline}
		c := m.client(s)
		enter(t, c).Release()
		out.Store(true)
		began := time.Now()
		_, err := on(c, coord.MaxWait(3*time.Second))(t.Context())
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, coord.ErrBusy, "nobody is ahead")
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Empty(t, lineOf(t, s, "line"))
		_, err = c.TryAcquire(t.Context(), "line", "lock", nil, exclusive)
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.Empty(t, lineOf(t, s, "line"))
	})
}

func TestAWaiterWhoseSessionIsLostJoinsAgainAtTheTail(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder, unlucky := enter(t, s.Client()), s.Client()
		turn := queue(t, unlucky)
		behind := queue(t, s.Client())
		place := lineOf(t, s, "line")[1]
		s.Expire(unlucky)
		synctest.Wait()
		line := lineOf(t, s, "line")
		require.Len(t, line, 3)
		assert.NotEqual(t, place.ID, line[1].ID)
		require.NoError(t, holder.Release())
		next := bubble.Enters(t, behind)
		bubble.Waits(t, turn)
		require.NoError(t, next.Release())
		bubble.Enters(t, turn).Release()
	})
}

func TestAWaiterRemovedByAnOperatorHearsOfIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder, c := enter(t, s.Client()), s.Client()
		turn := queue(t, c)
		require.NoError(t, s.Client().Break(t.Context(), lineOf(t, s, "line")[1]))
		synctest.Wait()
		r := <-turn
		assert.ErrorIs(t, r.Err, coord.ErrRemoved)
		assert.Len(t, lineOf(t, s, "line"), 1, "it does not join again")
		require.NoError(t, holder.Release())
	})
}

func TestOneWhoGivesUpIsGoneAtOnceAndSaysWhy(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder := enter(t, s.Client())
		own := errors.New("the customer hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		c := s.Client()
		go func() {
			_, err := on(c)(ctx)
			ended <- err
		}()
		synctest.Wait()
		require.Len(t, lineOf(t, s, "line"), 2)
		cancel(own)
		err := <-ended
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, own)
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.NotErrorIs(t, err, coord.ErrUnavailable)
		var e *coord.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, 1, e.Ahead)
		assert.Len(t, lineOf(t, s, "line"), 1)
		require.NoError(t, holder.Release())
	})
}

// A service that does not answer must not keep a caller whose time is up: the driver goes on without it.
func TestOneWhoGivesUpDoesNotWaitForTheServiceToConfirm(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder := enter(t, s.Client())
		c := s.Client()
		var took time.Duration
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			began := time.Now()
			_, err := on(c, coord.MaxWait(time.Second))(t.Context())
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			took = time.Since(began)
		}()
		synctest.Wait()
		heal := s.Partition(c)
		<-ended
		assert.LessOrEqual(t, took, 1100*time.Millisecond)
		assert.Len(t, lineOf(t, s, "line"), 2, "not taken away yet")
		heal()
		time.Sleep(time.Second)
		assert.Len(t, lineOf(t, s, "line"), 1)
		require.NoError(t, holder.Release())
	})
}

func TestATryThatFindsSomebodyCreatesNothing(t *testing.T) {
	everybody := coord.Rule{Sight: coord.Sight{Nearest: coord.All}, WaitFor: exclusive.WaitFor}
	for name, rule := range map[string]coord.Rule{"who sees the nearest": exclusive, "who sees all": everybody} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				var told diary
				m := &meddler{
					join: func(e driver.Entry, do joins) (driver.Place, []driver.Node, error) {
						if len(lineOf(t, s, "line")) > 0 && e.Free == nil {
							t.Error("it joins to look")
						}
						return do(e)
					},
					line: func(do func() ([]driver.Node, error)) ([]driver.Node, error) {
						t.Error("it reads the whole line")
						return do()
					},
				}
				c := m.client(s, told.option())
				holder := enter(t, s.Client())
				_, err := c.TryAcquire(t.Context(), "line", "lock", nil, rule)
				assert.ErrorIs(t, err, coord.ErrBusy)
				assert.NotErrorIs(t, err, coord.ErrUnavailable)
				assert.Equal(t, []string{"session opened"}, told.read(), "a try waits for nobody")
				assert.Len(t, lineOf(t, s, "line"), 1)
				require.NoError(t, holder.Release())
				h, err := c.TryAcquire(t.Context(), "line", "lock", nil, rule)
				require.NoError(t, err)
				assert.Equal(t, h.Token(), lineOf(t, s, "line")[0].Token)
				require.NoError(t, h.Release())
			})
		})
	}
}

// Two recipes of one name keep each other out; without this they would do so in silence.
func TestATryThatFindsSomebodySaysWhoThatIs(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h, err := s.Client(coord.WithOwnerLabel("nightly \x1b[2J backup")).Acquire(t.Context(), "line", "W", nil, exclusive)
		require.NoError(t, err)
		defer h.Release()
		_, err = s.Client().TryAcquire(t.Context(), "line", "lock", nil, exclusive)
		require.ErrorIs(t, err, coord.ErrBusy)
		var e *coord.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, h.Token(), e.Blocker.Token)
		owner := h.Node().Owner
		owner.Since = owner.Since.UTC()
		assert.Equal(t, owner, e.Blocker.Owner)
		assert.ErrorContains(t, err, `(1 ahead, of kind W, `)
		assert.ErrorContains(t, err, ` "nightly \x1b[2J backup" since 2000-01-01T00:00:00Z): line is busy`)
	})
}

// A driver may have joined before it sees who is ahead.
func TestATryThatJoinedInVainIsTakenBack(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := &meddler{join: func(e driver.Entry, do joins) (driver.Place, []driver.Node, error) {
			e.Free = nil
			return do(e)
		}}
		var told diary
		c := m.client(s, told.option())
		holder := enter(t, s.Client())
		began := time.Now()
		_, err := c.TryAcquire(t.Context(), "line", "lock", nil, exclusive)
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.Zero(t, time.Since(began))
		assert.Equal(t, []string{"session opened"}, told.read(), "a try waits for nobody")
		assert.Len(t, lineOf(t, s, "line"), 1)
		require.NoError(t, holder.Release())
	})
}

func TestASessionThatEndsWhileJoiningIsFollowedByAnother(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		joined := 0
		m := &meddler{}
		m.join = func(e driver.Entry, do joins) (driver.Place, []driver.Node, error) {
			if joined++; joined == 1 {
				s.Expire(m.under)
				return nil, nil, driver.ErrSessionEnded // before the engine has heard of it otherwise
			}
			return do(e)
		}
		h := enter(t, m.client(s, told.option()))
		assert.Equal(t, 2, joined)
		assert.Len(t, lineOf(t, s, "line"), 1)
		events := told.read()
		slices.Sort(events)
		assert.Equal(t, []string{fmt.Sprintf("line %d granted after 0s", h.Token()), "session ended", "session opened", "session opened"}, events)
		require.NoError(t, h.Release())
	})
}

// atTheLastMoment does something after the turn has come and before it is given.
func atTheLastMoment(m *meddler, do func()) {
	var joined, done atomic.Bool
	m.join = func(e driver.Entry, do joins) (driver.Place, []driver.Node, error) {
		defer joined.Store(true)
		return do(e)
	}
	m.deadline = func(of driver.Session) time.Time {
		if joined.Load() && done.CompareAndSwap(false, true) {
			do()
		}
		return of.Deadline()
	}
}

func TestNobodyEntersOnceTheClientIsClosed(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		m := &meddler{}
		c := m.client(s, told.option())
		atTheLastMoment(m, func() { c.Close() })
		h, err := on(c)(t.Context())
		assert.Nil(t, h)
		assert.ErrorIs(t, err, coord.ErrClosed)
		assert.Equal(t, []string{"session opened", "session ended"}, told.read())
		assert.Empty(t, lineOf(t, s, "line"))
	})
}

func TestNobodyEntersOnASessionThatHasEnded(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := &meddler{}
		c := m.client(s)
		atTheLastMoment(m, func() {
			s.Expire(m.under)
			time.Sleep(time.Millisecond) // for the session's keeper to hear of it
		})
		h, err := on(c)(t.Context())
		require.NoError(t, err)
		line := lineOf(t, s, "line")
		require.Len(t, line, 1)
		assert.Equal(t, line[0].ID, h.Node().ID, "it holds through a node that has gone")
		assert.NoError(t, h.Err())
		require.NoError(t, h.Release())
	})
}

func TestATryThatCannotLookIsUnavailable(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		own := errors.New("disk full")
		m := &meddler{join: func(driver.Entry, joins) (driver.Place, []driver.Node, error) { return nil, nil, own }}
		_, err := m.client(s).TryAcquire(t.Context(), "line", "lock", nil, exclusive)
		assert.ErrorIs(t, err, own)
		assert.NotErrorIs(t, err, coord.ErrBusy)
		assert.Empty(t, lineOf(t, s, "line"))
	})
}

func TestWhatCannotBeAskedForIsRefusedBeforeAnySession(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		c := s.Client(told.option())
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, ask := range []struct {
			ctx        context.Context
			line, kind string
			data       []byte
			rule       coord.Rule
			want       error
		}{
			{t.Context(), "a//b", "lock", nil, exclusive, coord.ErrInvalidName},
			{t.Context(), "line", "", nil, exclusive, coord.ErrInvalid},
			{t.Context(), "line", "no-letter", nil, exclusive, coord.ErrInvalid},
			{t.Context(), "line", "lock", make([]byte, coord.MaxData+1), exclusive, coord.ErrInvalid},
			{t.Context(), "line", "lock", nil, coord.Rule{}, coord.ErrInvalid},
			{ended, "line", "lock", nil, exclusive, context.Canceled},
		} {
			_, err := c.Acquire(ask.ctx, ask.line, ask.kind, ask.data, ask.rule)
			assert.ErrorIs(t, err, ask.want)
			_, err = c.TryAcquire(ask.ctx, ask.line, ask.kind, ask.data, ask.rule)
			assert.ErrorIs(t, err, ask.want)
		}
		assert.Empty(t, told.read())
	})
}

// announcing is a rule by which others wait for my turn: its kind says that it has come.
var announcing = coord.Rule{Sight: exclusive.Sight, WaitFor: exclusive.WaitFor, Granted: "granted"}

func TestATurnIsAnnouncedToThoseBehind(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var behind atomic.Bool
		m := &meddler{last: func() bool { return !behind.Load() }}
		c := m.client(s)
		acquire := func(context.Context) (*coord.Hold, error) {
			return c.Acquire(t.Context(), "line", "asking", nil, announcing)
		}
		h, err := acquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, "asking", h.Node().Kind, "nobody waits for the news")
		turn := coord.Chan(t.Context(), acquire)
		bubble.Waits(t, turn)
		require.NoError(t, h.Release())
		h = bubble.Enters(t, turn)
		assert.Equal(t, "granted", h.Node().Kind)
		assert.Equal(t, "granted", lineOf(t, s, "line")[0].Kind)
		require.NoError(t, h.Release())

		behind.Store(true) // somebody came between the join and the look
		h, err = acquire(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, "granted", lineOf(t, s, "line")[0].Kind)
		require.NoError(t, h.Release())
	})
}

func TestAnAnnouncementThatHadNoAnswerIsRepeated(t *testing.T) {
	for name, err := range map[string]error{"lost": context.DeadlineExceeded, "refused": errors.New("disk full")} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				var tries atomic.Int32
				m := &meddler{
					last: func() bool { return false },
					amend: func(_ context.Context, _ string, _ []byte, do func() error) error {
						if tries.Add(1) <= 3 {
							return err
						}
						return do()
					},
				}
				h, err := m.client(s).Acquire(t.Context(), "line", "asking", nil, announcing)
				require.NoError(t, err)
				time.Sleep(time.Second)
				assert.Equal(t, "granted", lineOf(t, s, "line")[0].Kind)
				time.Sleep(time.Minute)
				assert.EqualValues(t, 4, tries.Load(), "and no more once it is known")
				require.NoError(t, h.Release())
			})
		})
	}
}

func TestAReleaseWaitsForAnAnnouncementUnderWay(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var told diary
		m := &meddler{
			last: func() bool { return false },
			amend: func(_ context.Context, _ string, _ []byte, do func() error) error {
				told.write("amending")
				time.Sleep(500 * time.Millisecond)
				defer told.write("amended")
				return do()
			},
			leave: func(_ context.Context, held bool, do func() error) error {
				told.write("leaving, held: %v", held)
				return do()
			},
		}
		h, err := m.client(s).Acquire(t.Context(), "line", "asking", nil, announcing)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, h.Release())
		assert.Equal(t, []string{"amending", "amended", "leaving, held: false"}, told.read())
	})
}

// Its node stands until its owner lets go: those behind must not wait for more than that.
func TestAHoldThatIsLostBeforeItsAnnouncementIsAnnouncedAllTheSame(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var out silent
		answers := make(chan struct{}) // closed when an amendment gets an answer again
		m := &meddler{
			last:     func() bool { return false },
			deadline: out.deadline,
			amend: func(ctx context.Context, _ string, _ []byte, do func() error) error {
				select {
				case <-answers:
					return do()
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		}
		c := m.client(s)
		h, err := c.Acquire(t.Context(), "line", "asking", nil, announcing)
		require.NoError(t, err)
		out.Store(true)
		assert.ErrorIs(t, h.Err(), coord.ErrLost)
		time.Sleep(5 * time.Second)
		assert.Equal(t, "asking", lineOf(t, s, "line")[0].Kind)
		close(answers)
		out.Store(false)
		time.Sleep(5 * time.Second)
		assert.Equal(t, "granted", lineOf(t, s, "line")[0].Kind)
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
	})
}

func TestNothingIsAnnouncedAfterTheRelease(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var left, late atomic.Bool
		m := &meddler{
			last: func() bool { return false },
			amend: func(context.Context, string, []byte, func() error) error {
				if left.Load() {
					late.Store(true)
					return driver.ErrRemoved
				}
				return errors.New("disk full")
			},
			leave: func(_ context.Context, _ bool, do func() error) error {
				left.Store(true)
				return do()
			},
		}
		c := m.client(s)
		h, err := c.Acquire(t.Context(), "line", "asking", nil, announcing)
		require.NoError(t, err)
		synctest.Wait() // it will be announced again in a moment
		require.NoError(t, h.Release())
		time.Sleep(time.Minute)
		assert.False(t, late.Load(), "after a Leave the only further call is another Leave")
		require.NoError(t, c.Close())
	})
}

// deafClient returns a client whose holds do not hear that their nodes have gone, until hear is called.
func deafClient(t *testing.T, s *mem.Service) (c *coord.Client, hear func()) {
	deaf, hear := context.WithCancel(t.Context())
	t.Cleanup(hear)
	m := &meddler{watch: func(ctx context.Context, do func() error) error {
		<-deaf.Done()
		return do()
	}}
	return m.client(s), hear
}

// The service tells a waiter that its turn has come before it tells the holder of the same client that its node was removed.
func TestAWaiterDoesNotEnterBesideAHolderOfItsOwnClient(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c, hear := deafClient(t, s)
		h := enter(t, c)
		time.Sleep(time.Second)
		turn := queue(t, c)
		require.True(t, s.Remove(lineOf(t, s, "line")[0]))
		time.Sleep(time.Second)
		assert.NoError(t, h.Err(), "it has not heard of it")
		var r coord.Result
		select {
		case r = <-turn:
			assert.Fail(t, "the waiter is in beside it")
		default:
		}
		hear()
		time.Sleep(time.Second)
		assert.ErrorIs(t, h.Err(), coord.ErrRemoved)
		if r.Hold == nil {
			r = <-turn
		}
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	})
}

// While a waiter whose turn has come waits for that holder to hear, its own node may be removed as well.
func TestAWaiterThatIsRemovedMeanwhileIsNotLetIn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c, hear := deafClient(t, s)
		h := enter(t, c)
		time.Sleep(time.Second)
		turn := queue(t, c)
		for range 2 {
			require.True(t, s.Remove(lineOf(t, s, "line")[0]))
			time.Sleep(time.Second)
		}
		next := enter(t, s.Client())
		hear()
		assert.ErrorIs(t, (<-turn).Err, coord.ErrRemoved)
		time.Sleep(time.Second)
		assert.ErrorIs(t, h.Err(), coord.ErrRemoved)
		require.NoError(t, next.Release())
	})
}

// Somebody whose turn has come may be slow to take it. If its node is removed meanwhile, one behind it in the same client
// may be faster.
func TestATurnIsNotTakenBesideAHolderOfTheOwnClientBehind(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var m meddler
		var c *coord.Client
		var next *coord.Hold
		m.join = func(e driver.Entry, do joins) (driver.Place, []driver.Node, error) {
			p, ahead, err := do(e)
			m.join = nil
			require.True(t, s.Remove(lineOf(t, s, "line")[0]))
			next = enter(t, c)
			return p, ahead, err
		}
		c = m.client(s)
		h, err := c.Acquire(t.Context(), "line", "lock", nil, exclusive)
		assert.ErrorIs(t, err, coord.ErrRemoved)
		if h != nil {
			h.Release()
		}
		require.NoError(t, next.Release())
	})
}
