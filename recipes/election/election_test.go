package election_test

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
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheLongestWaitingCandidateFollows(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		term, err := election.New(s.Client(), "seat").Campaign(t.Context(), []byte("a"))
		require.NoError(t, err)
		won := make(chan string, 2)
		for _, who := range []string{"b", "c"} {
			go func() {
				term, err := election.New(s.Client(), "seat").Campaign(t.Context(), []byte(who))
				assert.NoError(t, err)
				won <- who
				time.Sleep(time.Second)
				term.Release()
			}()
			synctest.Wait()
		}
		e := election.New(s.Client(), "seat")
		candidates, err := e.Candidates(t.Context())
		require.NoError(t, err)
		require.Len(t, candidates, 3)
		for i, who := range []string{"a", "b", "c"} {
			assert.Equal(t, who, string(candidates[i].Data))
			assert.Equal(t, i == 0, candidates[i].Holds)
		}
		require.NoError(t, term.Release())
		assert.Equal(t, "b", <-won)
		assert.Equal(t, "c", <-won)
		time.Sleep(2 * time.Second)
		_, err = e.Leader(t.Context())
		assert.ErrorIs(t, err, election.ErrNoLeader)
	})
}

func TestObserveTellsOfVacancyValueAndSuccession(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan string, 10)
		var ended sync.WaitGroup
		ended.Go(func() {
			for leader, err := range election.New(s.Client(), "seat").Observe(ctx) {
				switch {
				case errors.Is(err, election.ErrNoLeader):
					seen <- "nobody"
				case err != nil:
					seen <- err.Error()
				default:
					seen <- string(leader.Data)
				}
			}
		})
		assert.Equal(t, "nobody", <-seen)
		client := s.Client()
		term, err := election.New(client, "seat").Campaign(t.Context(), []byte("a"))
		require.NoError(t, err)
		assert.Equal(t, "a", <-seen)
		require.NoError(t, term.Proclaim(t.Context(), []byte("a, busy")))
		assert.Equal(t, "a, busy", <-seen)
		assert.NoError(t, term.Err())
		s.Expire(client)
		assert.Equal(t, "nobody", <-seen)
		assert.ErrorIs(t, term.Proclaim(t.Context(), []byte("ghost")), coord.ErrLost)
		cancel()
		ended.Wait()
	})
}

func TestObserverThatIsCutOffSaysSoAndGoesOn(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		term, err := election.New(s.Client(), "seat").Campaign(t.Context(), []byte("a"))
		require.NoError(t, err)
		c := s.Client()
		var seen []string
		var heal func()
		for leader, err := range election.New(c, "seat").Observe(t.Context()) {
			switch {
			case err == nil && len(seen) == 0:
				heal = s.Partition(c)
				term.Proclaim(t.Context(), []byte("b"))
			case err != nil:
				assert.NotErrorIs(t, err, election.ErrNoLeader)
				heal()
			}
			if seen = append(seen, string(leader.Data)); string(leader.Data) == "b" {
				break
			}
		}
		assert.Equal(t, []string{"a", "", "b"}, seen)
		term.Release()
	})
}

func TestObserveEndsWithItsClient(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		var last error
		for _, err := range election.New(c, "seat").Observe(t.Context()) {
			last = err
			c.Close()
		}
		assert.ErrorIs(t, last, coord.ErrClosed)
	})
}

func TestRunLeadsAgainAfterALostTermAndNeverTwiceAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		c := s.Client()
		var running, terms atomic.Int32
		done := make(chan error, 1)
		go func() {
			done <- election.New(c, "seat").Run(ctx, nil, func(ctx context.Context, term *election.Term) error {
				assert.Equal(t, int32(1), running.Add(1))
				defer running.Add(-1)
				terms.Add(1)
				<-ctx.Done()
				time.Sleep(3 * time.Second) // it stops, slowly
				return ctx.Err()
			})
		}()
		for range 5 {
			time.Sleep(20 * time.Second)
			assert.Equal(t, int32(1), running.Load(), "it does not lead")
			s.Expire(c)
		}
		time.Sleep(20 * time.Second)
		cancel()
		assert.NoError(t, <-done)
		assert.Equal(t, int32(6), terms.Load())
	})
}

func TestRunReturnsWhatFnSaysOfATermThatWasHeld(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		own := errors.New("work is done")
		c := s.Client()
		e := election.New(c, "seat")
		assert.ErrorIs(t, e.Run(t.Context(), nil, func(context.Context, *election.Term) error { return own }), own)
		assert.NoError(t, e.Run(t.Context(), nil, func(context.Context, *election.Term) error { return nil }))
		_, err := e.Leader(t.Context())
		assert.ErrorIs(t, err, election.ErrNoLeader, "released before Run returned")

		assert.ErrorIs(t, e.Run(t.Context(), nil, nil), coord.ErrInvalid)
		assert.PanicsWithValue(t, "oops", func() {
			e.Run(t.Context(), nil, func(context.Context, *election.Term) error { panic("oops") })
		})
		c.Close()
		assert.ErrorIs(t, e.Run(t.Context(), nil, func(context.Context, *election.Term) error { return nil }), coord.ErrClosed)
	})
}

func TestValueOverTheLimitIsRefused(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		e := election.New(s.Client(), "seat")
		_, err := e.Campaign(t.Context(), make([]byte, coord.MaxData+1))
		assert.ErrorIs(t, err, coord.ErrInvalid)
		term, err := e.Campaign(t.Context(), make([]byte, coord.MaxData))
		require.NoError(t, err)
		assert.ErrorIs(t, term.Proclaim(t.Context(), make([]byte, coord.MaxData+1)), coord.ErrInvalid)
		assert.NoError(t, term.Err())
		leader, err := e.Leader(t.Context())
		require.NoError(t, err)
		assert.Len(t, leader.Data, coord.MaxData)
		term.Release()
	})
}

func TestMaxWaitBoundsACampaign(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		leader, err := election.New(s.Client(), "seat", nil, election.MaxWait(0)).Campaign(t.Context(), nil)
		require.NoError(t, err, "the seat is free")
		for _, limit := range []time.Duration{3 * time.Second, 0} {
			began := time.Now()
			_, err = election.New(s.Client(), "seat", election.MaxWait(limit)).Campaign(t.Context(), nil)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, coord.ErrBusy)
			assert.Equal(t, limit, time.Since(began))
		}
		require.NoError(t, leader.Release())
	})
}

func TestWhoLeadsDoesNotWaitForItself(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		e := election.New(s.Client(), "seat")
		term, err := e.Campaign(t.Context(), nil)
		require.NoError(t, err)
		_, err = e.Campaign(term.Context(), nil)
		assert.ErrorIs(t, err, coord.ErrHeld)
		err = e.Run(term.Context(), nil, func(context.Context, *election.Term) error { return nil })
		assert.ErrorIs(t, err, coord.ErrHeld)
		require.NoError(t, term.Release())
	})
}

func TestRunSaysThatTheServiceIsOutOfReachWhenItsTimeIsUp(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		heal := s.Partition(c)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := election.New(c, "seat").Run(ctx, nil, func(context.Context, *election.Term) error { return nil })
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		heal()
	})
}

// All recipes share one set of names.
func TestAnotherRecipesHolderIsNoLeader(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for name, lock := range map[string]func(context.Context) (*coord.Hold, error){
			"mutex":  mutex.New(s.Client(), "seat").Lock,
			"reader": rwlock.New(s.Client(), "seat").RLock,
		} {
			h, err := lock(t.Context())
			require.NoError(t, err, name)
			e := election.New(s.Client(), "seat")
			go e.Run(t.Context(), nil, func(context.Context, *election.Term) error { return nil })
			synctest.Wait()
			_, err = e.Leader(t.Context())
			assert.ErrorIs(t, err, election.ErrNoLeader, name)
			all, err := e.Candidates(t.Context())
			require.NoError(t, err)
			require.Len(t, all, 1, name)
			assert.False(t, all[0].Holds)
			for _, err := range e.Observe(t.Context()) {
				assert.ErrorIs(t, err, election.ErrNoLeader, name)
				break
			}
			require.NoError(t, h.Release())
			synctest.Wait()
		}
	})
}

func TestRunKeepsItsPlaceHoweverLongItTakes(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		leader, err := election.New(s.Client(), "seat").Campaign(t.Context(), nil)
		require.NoError(t, err)
		e := election.New(s.Client(), "seat", election.MaxWait(time.Second))
		led := make(chan error, 1)
		go func() {
			led <- e.Run(t.Context(), nil, func(context.Context, *election.Term) error { return nil })
		}()
		synctest.Wait()
		at, err := e.Candidates(t.Context())
		require.NoError(t, err)
		require.Len(t, at, 2)
		time.Sleep(time.Minute)
		later, err := e.Candidates(t.Context())
		require.NoError(t, err)
		assert.Equal(t, at, later)
		require.NoError(t, leader.Release())
		assert.NoError(t, <-led)
	})
}

func TestTheLeaderIsShownAsItStands(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(coord.WithNamespace("shop"), coord.WithOwnerLabel("billing"))
		e := election.New(c, "seat")
		term, err := e.Campaign(t.Context(), []byte("a"))
		require.NoError(t, err)
		leader, err := e.Leader(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "seat", leader.Line)
		assert.True(t, leader.Holds)
		assert.Equal(t, term.Token(), leader.Token)
		assert.Equal(t, "billing", leader.Owner.Label)
		assert.Equal(t, "a", string(leader.Data))
		require.NoError(t, term.Release())
		_, err = e.Leader(t.Context())
		assert.EqualError(t, err, `turnwise: leader "seat": no leader`)
	})
}

func TestWhoCannotAskDoesNotKnowTheLeader(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		heal := s.Partition(c)
		leader, err := election.New(c, "seat").Leader(t.Context())
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.NotErrorIs(t, err, election.ErrNoLeader)
		assert.Zero(t, leader)
		_, err = election.New(c, "seat").Candidates(t.Context())
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		heal()
		_, err = election.New(c, "seat").Leader(t.Context())
		assert.ErrorIs(t, err, election.ErrNoLeader)
	})
}

func TestAProclamationThatFailsSaysSo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		term, err := election.New(c, "seat").Campaign(t.Context(), []byte("old"))
		require.NoError(t, err)
		heal := s.Partition(c)
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, term.Proclaim(second, []byte("new")), context.DeadlineExceeded)
		leader, err := election.New(s.Client(), "seat").Leader(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "old", string(leader.Data))
		heal()
		assert.NoError(t, term.Err())
		require.NoError(t, term.Proclaim(t.Context(), []byte("new")))
		assert.Equal(t, "new", string(term.Node().Data))
		require.NoError(t, term.Release())
		assert.ErrorIs(t, term.Proclaim(t.Context(), []byte("ghost")), coord.ErrReleased)
	})
}

func TestObserveDoesNotRepeatALeaderThatStays(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		term, err := election.New(s.Client(), "seat").Campaign(t.Context(), []byte("a"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		other := election.New(s.Client(), "seat", election.MaxWait(time.Minute))
		go func() { // it comes and goes behind the leader
			for ctx.Err() == nil {
				_, err := other.Campaign(ctx, []byte("b"))
				assert.Error(t, err)
			}
		}()
		var seen []string
		for leader, err := range election.New(s.Client(), "seat").Observe(ctx) {
			require.NoError(t, err)
			if seen = append(seen, string(leader.Data)); len(seen) > 5 {
				break
			}
		}
		assert.Equal(t, []string{"a"}, seen)
		synctest.Wait()
		require.NoError(t, term.Release())
	})
}

func TestRunTakesLongerAndLongerBreaksWhileTermsDoNotLast(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		pause, ended := 100*time.Millisecond, time.Time{}
		terms := 0
		err := election.New(c, "seat").Run(t.Context(), nil, func(ctx context.Context, _ *election.Term) error {
			if terms++; terms > 1 {
				assert.GreaterOrEqual(t, time.Since(ended), pause/2, "before term %d", terms)
				assert.LessOrEqual(t, time.Since(ended), pause, "before term %d", terms)
				pause = min(2*pause, 5*time.Second)
			}
			switch terms {
			case 10:
				time.Sleep(time.Minute) // one that lasts
				pause = 100 * time.Millisecond
			case 12:
				return nil
			}
			s.Expire(c)
			<-ctx.Done()
			ended = time.Now()
			return errors.New("not of interest: the term was lost")
		})
		assert.NoError(t, err)
		assert.Equal(t, 12, terms)
	})
}

func TestRunEndsWithItsContextWhileItWaits(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		leader, err := election.New(s.Client(), "seat").Campaign(t.Context(), nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e := election.New(s.Client(), "seat")
		assert.NoError(t, e.Run(ctx, nil, func(context.Context, *election.Term) error {
			t.Error("it led beside the leader")
			return nil
		}))
		candidates, err := e.Candidates(t.Context())
		require.NoError(t, err)
		assert.Len(t, candidates, 1)
		require.NoError(t, leader.Release())
	})
}

func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()
	seat := election.New(service.Client(), "seat")
	ctx := context.Background()

	term, _ := seat.Campaign(ctx, []byte("10.0.0.7:8080"))
	leader, _ := seat.Leader(ctx)
	fmt.Printf("leader %s, token matches: %v\n", leader.Data, leader.Token == term.Token())
	term.Release()
	_, err := seat.Leader(ctx)
	fmt.Println(errors.Is(err, election.ErrNoLeader))
	// Output:
	// leader 10.0.0.7:8080, token matches: true
	// true
}

// flaky fails the first join, for a reason that more waiting would not mend.
type flaky struct {
	driver.Driver
	failed bool
}

type flakySession struct {
	driver.Session
	d *flaky
}

func (d *flaky) Open(ctx context.Context) (driver.Session, error) {
	s, err := d.Driver.Open(ctx)
	return &flakySession{s, d}, err
}

func (s *flakySession) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	if !s.d.failed {
		s.d.failed = true
		return nil, nil, errors.New("the service is full")
	}
	return s.Session.Join(ctx, e)
}

func TestRunForgetsATroubleThatHasPassed(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		leader, err := election.New(s.Client(), "seat").Campaign(t.Context(), nil)
		require.NoError(t, err)
		d := &flaky{Driver: s.Client().Driver()}
		c := coord.NewClient(d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.NoError(t, election.New(c, "seat").Run(ctx, nil, func(context.Context, *election.Term) error { return nil }))
		assert.True(t, d.failed)
		require.NoError(t, c.Close())
		require.NoError(t, leader.Release())
	})
}

func TestRunThatIsToldToStopSaysNothing(t *testing.T) {
	enough := errors.New("enough")
	for name, says := range map[string]func(context.Context) error{"its end": context.Context.Err, "why": context.Cause} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { cancel(enough) })
				assert.NoError(t, election.New(s.Client(), "seat").Run(ctx, nil, func(ctx context.Context, _ *election.Term) error {
					<-ctx.Done()
					return says(ctx)
				}))
			})
		})
	}
}
