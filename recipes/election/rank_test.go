package election_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/verify/bubble"
)

// leads has a candidate run until ctx ends, and tells who leads.
func leads(ctx context.Context, all *sync.WaitGroup, e *election.Election, who string, told chan<- string) {
	all.Go(func() {
		_ = e.Run(ctx, []byte(who), func(ctx context.Context, _ *election.Term) error {
			told <- who
			<-ctx.Done()
			return context.Cause(ctx)
		})
	})
	synctest.Wait()
	time.Sleep(time.Second)
}

// campaigns has somebody stand for election.
func campaigns(ctx context.Context, e *election.Election, value []byte) <-chan coord.Result {
	return coord.Chan(ctx, func(ctx context.Context) (*coord.Hold, error) {
		t, err := e.Campaign(ctx, value)
		if err != nil {
			return nil, err
		}
		return t.Hold, nil
	})
}

func values(t *testing.T, e *election.Election) (all []string) {
	t.Helper()
	candidates, err := e.Candidates(t.Context())
	require.NoError(t, err)
	for _, n := range candidates {
		all = append(all, string(n.Data))
	}
	return all
}

func TestABetterCandidateLeadsSoonAfterItHasCome(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		told := make(chan string, 100)
		for _, who := range []string{"a", "b", "c"} {
			leads(ctx, &all, election.New(s.Client(), "seat", election.Rank(0)), who, told)
		}
		require.Equal(t, "a", <-told)
		e := election.New(s.Client(), "seat", election.Rank(2))
		came := time.Now()
		term, err := e.Campaign(ctx, []byte("better"))
		require.NoError(t, err)
		require.Less(t, time.Since(came), time.Second)
		require.Empty(t, told, "the others step aside without leading")
		time.Sleep(time.Second)
		stand := values(t, e)
		require.Equal(t, "better", stand[0])
		require.ElementsMatch(t, []string{"a", "b", "c"}, stand[1:], "each has gone back behind it, at its own pace")
		leader, err := e.Leader(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, leader.Rank)

		best := campaigns(ctx, election.New(s.Client(), "seat", election.Rank(3)), []byte("best"))
		n, err := term.Better(ctx)
		require.NoError(t, err)
		require.Equal(t, "best", string(n.Data))
		require.NoError(t, term.Release())
		r := <-best
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
		time.Sleep(time.Second)
		require.NotEmpty(t, told, "one of the others leads again")
		stop()
		all.Wait()
	})
}

func TestWhoHasNoRankGivesWayToNobody(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		term, err := election.New(s.Client(), "seat").Campaign(t.Context(), []byte("a"))
		require.NoError(t, err)
		better := election.New(s.Client(), "seat", election.Rank(9), election.MaxWait(time.Hour))
		_, err = better.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, coord.ErrBusy)
		require.NoError(t, term.Err())
		_, err = term.Better(t.Context())
		require.ErrorIs(t, err, coord.ErrInvalid)
		require.NoError(t, term.Release())
	})
}

// Each time that it goes back to the end counts as waiting.
func TestStandingAgainTakesNoMoreThanMaxWait(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		first, err := election.New(s.Client(), "seat").Campaign(t.Context(), nil)
		require.NoError(t, err)
		began := time.Now()
		ended := make(chan error)
		go func() {
			_, err := election.New(s.Client(), "seat", election.Rank(1), election.MaxWait(time.Minute)).Campaign(t.Context(), nil)
			ended <- err
		}()
		time.Sleep(30 * time.Second)
		better := campaigns(t.Context(), election.New(s.Client(), "seat", election.Rank(2)), nil)
		time.Sleep(time.Second)
		require.NoError(t, first.Release())
		r := <-better
		require.NoError(t, r.Err)
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), time.Minute+time.Second)
		require.NoError(t, r.Hold.Release())
	})
}

func TestWhoYieldsStandsBehindAllOthers(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		e := election.New(s.Client(), "seat")
		term, err := e.Campaign(t.Context(), []byte("a"))
		require.NoError(t, err)
		other := campaigns(t.Context(), election.New(s.Client(), "seat"), []byte("b"))
		time.Sleep(time.Second)
		require.NoError(t, term.Proclaim(t.Context(), []byte("A")))
		again := make(chan *election.Term)
		go func() {
			next, err := term.Yield(t.Context())
			assert.NoError(t, err)
			again <- next
		}()
		b := <-other
		require.NoError(t, b.Err)
		time.Sleep(time.Second)
		require.Equal(t, []string{"b", "A"}, values(t, e))
		require.NoError(t, b.Hold.Release())
		next := <-again
		require.Greater(t, next.Token(), b.Hold.Token())
		require.NoError(t, next.Release())
	})
}

// A leader that was told of a better candidate is still busy when the program ends.
func TestRunSaysNothingOfABetterCandidateWhenItsContextEnds(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() {
			ended <- election.New(s.Client(), "seat", election.Rank(0)).Run(ctx, nil, func(ctx context.Context, _ *election.Term) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				return context.Cause(ctx)
			})
		}()
		time.Sleep(time.Second)
		better := campaigns(t.Context(), election.New(s.Client(), "seat", election.Rank(1)), nil)
		time.Sleep(time.Second)
		stop()
		require.NoError(t, <-ended)
		r := <-better
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	})
}

// looked calls then after each look at a whole line.
type looked struct {
	driver.Driver
	then func()
}

func (l looked) Line(ctx context.Context, line string) ([]driver.Node, error) {
	defer l.then()
	return l.Driver.Line(ctx, line)
}

func TestRunReturnsNilIfItsContextEndsWhileItStepsAside(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		first, err := election.New(s.Client(), "seat").Campaign(t.Context(), nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		c := coord.NewClient(looked{s.Client().Driver(), stop})
		go func() {
			ended <- election.New(c, "seat", election.Rank(0)).Run(ctx, nil, func(context.Context, *election.Term) error { panic("it does not lead") })
		}()
		time.Sleep(time.Second)
		better := campaigns(t.Context(), election.New(s.Client(), "seat", election.Rank(1)), nil)
		time.Sleep(time.Second)
		require.NoError(t, first.Release())
		require.NoError(t, <-ended)
		r := <-better
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	})
}

func TestWhoYieldsWithinItsTermGoesOnLeading(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		term, err := election.New(s.Client(), "seat").Campaign(t.Context(), nil)
		require.NoError(t, err)
		_, err = term.Yield(term.Context())
		require.ErrorIs(t, err, coord.ErrHeld)
		require.NoError(t, term.Err())
		require.NoError(t, term.Release())
	})
}

// looking has something happen when somebody looks at a line, and counts that.
type looking struct {
	driver.Driver
	looks int
	then  func(look int)
}

func (l *looking) Line(ctx context.Context, line string) ([]driver.Node, error) {
	l.looks++
	l.then(l.looks)
	return l.Driver.Line(ctx, line)
}

// It looks who else stands once its turn has come, and its session may end just then.
func TestATermThatEndsBeforeItBeginsIsNotReturned(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		link := s.Client()
		client := coord.NewClient(&looking{Driver: link.Driver(), then: func(look int) {
			if look == 1 {
				s.Expire(link)
				time.Sleep(time.Second)
			}
		}})
		term, err := election.New(client, "seat", election.Rank(1)).Campaign(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, term.Err())
		require.NoError(t, term.Release())
	})
}

func TestACandidateThatIsRemovedAtItsTurnIsTold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		client := coord.NewClient(&looking{Driver: s.Client().Driver(), then: func(int) {
			first, err := s.Client().First(t.Context(), "seat")
			assert.NoError(t, err)
			s.Remove(first)
			time.Sleep(time.Second)
		}})
		_, err := election.New(client, "seat", election.Rank(1)).Campaign(t.Context(), nil)
		require.ErrorIs(t, err, coord.ErrRemoved)
		require.NotErrorIs(t, err, coord.ErrLost)
	})
}

// Each term ends while the candidate looks who else stands: it must not stand again and again without a pause.
func TestACandidateWhoseTermsAreTooShortDoesNotHurry(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		far := &looking{Driver: s.Client().Driver(), then: func(int) { time.Sleep(20 * time.Millisecond) }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e := election.New(coord.NewClient(far), "seat", election.Rank(1), election.MaxTerm(10*time.Millisecond))
		_, err := e.Campaign(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, far.looks, 60)
	})
}
