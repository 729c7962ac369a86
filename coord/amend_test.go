package coord_test

import (
	"context"
	"errors"
	"fmt"
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

func TestAnAmendmentWhoseOutcomeIsOpenCountsAsMade(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(map[bool]string{true: "applied", false: "not applied"}[applied], func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				answers := false
				m := &meddler{}
				m.amend = func(ctx context.Context, _ string, _ []byte, do func() error) error {
					if answers {
						return do()
					}
					if applied {
						require.NoError(t, do())
					}
					<-ctx.Done()
					return ctx.Err()
				}
				c := m.client(s)
				h, err := c.Acquire(t.Context(), "line", "W", nil, exclusive)
				require.NoError(t, err)
				inner := within(t, c, h.Context(), "W")
				second, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- h.Amend(second, "R", nil) }()
				synctest.Wait()
				assert.Equal(t, "R", h.Node().Kind, "it is on its way")
				assert.ErrorIs(t, inner.Err(), coord.ErrLost, "it writes beside a reader")

				err = <-ended
				assert.ErrorIs(t, err, coord.ErrUnsettled)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.NoError(t, h.Err(), "it goes on as a reader")
				assert.Equal(t, "R", h.Node().Kind)
				assert.True(t, h.Unsettled())
				_, err = c.Acquire(h.Context(), "line", "W", nil, exclusive, coord.Reentrant())
				assert.ErrorIs(t, err, coord.ErrUpgrade)
				assert.ErrorIs(t, h.Amend(t.Context(), "W", nil), coord.ErrInvalid, "it would be more than it holds")

				answers = true
				require.NoError(t, h.Amend(t.Context(), "R", nil))
				assert.False(t, h.Unsettled())
				assert.Equal(t, "R", lineOf(t, s, "line")[0].Kind)
				inner.Release()
				require.NoError(t, h.Release())
			})
		})
	}
}

// The service refuses for certain: the hold is what it was.
func TestAnAmendmentThatIsRefusedForCertainChangesNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		refuses := fmt.Errorf("%w: %w", driver.ErrDenied, driver.ErrUnchanged)
		var told []string
		m := &meddler{amend: func(_ context.Context, _ string, _ []byte, do func() error) error {
			if refuses != nil {
				return refuses
			}
			return do()
		}}
		c := m.client(s, coord.WithObserver(&coord.Observer{Amended: func(_ time.Time, me coord.Node) { told = append(told, me.Kind) }}))
		h, err := c.Acquire(t.Context(), "line", "W", nil, exclusive)
		require.NoError(t, err)
		err = h.Amend(t.Context(), "R", nil)
		assert.ErrorIs(t, err, coord.ErrDenied)
		assert.NotErrorIs(t, err, coord.ErrUnsettled)
		assert.False(t, h.Unsettled())
		assert.Equal(t, "W", h.Node().Kind)
		refuses = nil
		require.NoError(t, h.Amend(t.Context(), "W", []byte("x")))
		synctest.Wait()
		assert.Equal(t, []string{"R", "W"}, told)
		require.NoError(t, h.Release())
	})
}

// If an earlier amendment may yet be applied, a refusal of the next one settles nothing.
func TestARefusalDoesNotSettleAnEarlierAmendment(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		answer := errors.New("no answer")
		m := &meddler{amend: func(context.Context, string, []byte, func() error) error { return answer }}
		h, err := m.client(s).Acquire(t.Context(), "line", "W", nil, exclusive)
		require.NoError(t, err)
		require.ErrorIs(t, h.Amend(t.Context(), "R", nil), coord.ErrUnsettled)
		answer = driver.ErrUnchanged
		require.ErrorIs(t, h.Amend(t.Context(), "R", nil), coord.ErrUnsettled)
		assert.True(t, h.Unsettled())
		assert.Equal(t, "R", h.Node().Kind)
		require.NoError(t, h.Release())
	})
}

func TestAnAmendmentThatIsNeverSentChangesNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h, err := s.Client().Acquire(t.Context(), "line", "W", nil, exclusive)
		require.NoError(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err = h.Amend(ended, "R", nil)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, coord.ErrUnsettled)
		assert.Equal(t, "W", h.Node().Kind)
		require.NoError(t, h.Release())
	})
}

func TestAnAmendmentThatWaitsForAnotherEndsWithItsContext(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := &meddler{amend: func(ctx context.Context, _ string, _ []byte, do func() error) error {
			select {
			case <-time.After(9 * time.Second):
				return do()
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		h := enter(t, m.client(s))
		go h.Amend(t.Context(), "lock", []byte("slow"))
		synctest.Wait()
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := h.Amend(brief, "R", nil)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, coord.ErrUnsettled, "it was not sent")
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		time.Sleep(10 * time.Second)
		assert.Equal(t, "slow", string(h.Node().Data))
		assert.Equal(t, "lock", h.Node().Kind)
		require.NoError(t, h.Release())
	})
}

// The owner's own amendment says what the node is to be; the announcement only says that the turn has come.
func TestAnAnnouncementKeepsWhatTheOwnerSet(t *testing.T) {
	for _, c := range []struct{ name, amend, kind string }{
		{"another kind", "R", "R"},
		{"the kind that it asked for", "asking", "granted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				refused := true
				m := &meddler{
					last: func() bool { return false },
					amend: func(_ context.Context, kind string, _ []byte, do func() error) error {
						if kind == "granted" && refused {
							refused = false
							return errors.New("disk full")
						}
						return do()
					},
				}
				h, err := m.client(s).Acquire(t.Context(), "line", "asking", nil, announcing)
				require.NoError(t, err)
				synctest.Wait() // it will be announced again in a moment
				require.NoError(t, h.Amend(t.Context(), c.amend, []byte("mine")))
				time.Sleep(time.Minute)
				n := lineOf(t, s, "line")[0]
				assert.Equal(t, c.kind, n.Kind)
				assert.Equal(t, "mine", string(n.Data))
				require.NoError(t, h.Release())
			})
		})
	}
}

// Others may have been let in as the owner asked, so the announcement must not take that back.
func TestAnAnnouncementSettlesWhatTheOwnerAskedFor(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		tries := 0
		m := &meddler{
			last: func() bool { return false },
			amend: func(_ context.Context, _ string, _ []byte, do func() error) error {
				if tries++; tries <= 2 { // the announcement, and the owner's own
					return context.DeadlineExceeded
				}
				return do()
			},
		}
		h, err := m.client(s).Acquire(t.Context(), "line", "asking", nil, announcing)
		require.NoError(t, err)
		synctest.Wait() // it will be announced again in a moment
		assert.ErrorIs(t, h.Amend(t.Context(), "R", nil), coord.ErrUnsettled)
		time.Sleep(time.Minute)
		assert.Equal(t, "R", lineOf(t, s, "line")[0].Kind)
		assert.False(t, h.Unsettled())
		require.NoError(t, h.Release())
	})
}

func TestDataIsCopiedWhenItIsHandedIn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var joined []byte // as the driver has it, which may send it again
		m := &meddler{last: func() bool { return false }, join: func(e driver.Entry, do joins) (driver.Place, []driver.Node, error) {
			joined = e.Data
			return do(e)
		}}
		c := m.client(s)
		data := []byte("value")
		h, err := c.Acquire(t.Context(), "line", "asking", data, announcing)
		require.NoError(t, err)
		copy(data, "spoil")
		assert.Equal(t, "value", string(joined))
		synctest.Wait()
		assert.Equal(t, "granted", h.Node().Kind)
		assert.Equal(t, "value", string(lineOf(t, s, "line")[0].Data))
		data = []byte("other")
		require.NoError(t, h.Amend(t.Context(), "granted", data))
		copy(data, "spoil")
		copy(h.Node().Data, "spoil")
		first, err := c.First(t.Context(), "line")
		require.NoError(t, err)
		copy(first.Data, "spoil")
		assert.Equal(t, "other", string(lineOf(t, s, "line")[0].Data))
		assert.Equal(t, "other", string(h.Node().Data))
		require.NoError(t, h.Release())
	})
}
