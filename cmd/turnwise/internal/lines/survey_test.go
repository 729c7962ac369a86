package lines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/asks"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// fake is a service that a test makes up.
type fake struct {
	mu    sync.Mutex
	lines map[string][]coord.Node
	fails error            // what each question comes back with
	deny  map[string]error // what a question about one line comes back with
	takes time.Duration

	asked, now, most atomic.Int64
}

func (f *fake) ask(ctx context.Context) error {
	f.asked.Add(1)
	n := f.now.Add(1)
	defer f.now.Add(-1)
	for m := f.most.Load(); n > m && !f.most.CompareAndSwap(m, n); m = f.most.Load() {
	}
	f.mu.Lock()
	fails, takes := f.fails, f.takes
	f.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fails
}

func (f *fake) Lines(ctx context.Context, prefix string) ([]string, error) {
	if err := f.ask(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for n := range f.lines {
		if strings.HasPrefix(n, prefix) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (f *fake) Line(ctx context.Context, name string) ([]coord.Node, error) {
	if err := f.ask(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lines[name], f.deny[name]
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func many(n int) map[string][]coord.Node {
	all := make(map[string][]coord.Node)
	for i := range n {
		name := fmt.Sprintf("line%05d", i)
		all[name] = []coord.Node{{ID: name, Line: name, Kind: "lock", Holds: true, Token: 1, Owner: coord.Owner{Host: "h", PID: i + 1}}}
	}
	return all
}

// survey runs a survey within a bubble, until the test ends.
func survey(t *testing.T, f Source, prefix string) *Survey {
	return running(t, New(f, "fake", prefix, Few))
}

func running(t *testing.T, s *Survey) *Survey {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done; time.Sleep(time.Minute) })
	return s
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestNobodyLooksAndNothingIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lines: many(3)}
		s := survey(t, f, "")
		time.Sleep(time.Hour)
		assert.Zero(t, f.asked.Load())

		stop := s.Look()
		time.Sleep(10 * time.Second)
		b, _ := s.Board()
		assert.Equal(t, Live, b.State)
		require.Len(t, b.Lines, 3)
		assert.Equal(t, Live, b.Lines[0].State)
		asked := f.asked.Load()
		assert.InDelta(t, 40, asked, 8, "four questions a second")

		// It does not matter how many look.
		for range 500 {
			defer s.Look()()
		}
		time.Sleep(10 * time.Second)
		assert.InDelta(t, 40, f.asked.Load()-asked, 8)
		stop()
	})
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lines: many(3), takes: time.Millisecond} // so that nothing is read before this test has seen the board
		s := survey(t, f, "")
		stop := s.Look()
		time.Sleep(10 * time.Second)
		stop()
		time.Sleep(2 * time.Second)
		asked := f.asked.Load()
		time.Sleep(time.Hour)
		assert.Equal(t, asked, f.asked.Load())

		defer s.Look()()
		b, _ := s.Board()
		assert.Equal(t, Stale, b.State, "what was live an hour ago")
		assert.Equal(t, Stale, b.Lines[0].State)
	})
}

func TestHowOftenTheServiceIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		takes      time.Duration
		least, max int64 // a second
	}{
		"a fast service":  {0, 150, 205},
		"a slow one":      {200 * time.Millisecond, 5, 11},
		"a very slow one": {2 * time.Second, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{lines: many(300), takes: c.takes} // more than can be read in a second
				s := survey(t, f, "")
				defer s.Look()()
				time.Sleep(time.Minute)
				perSecond := f.asked.Load() / 60
				assert.GreaterOrEqual(t, perSecond, c.least)
				assert.LessOrEqual(t, perSecond, c.max)
				assert.LessOrEqual(t, f.most.Load(), int64(atOnce))
			})
		})
	}
}

func TestMoreLinesThanCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 500 // at ten a second
		f := &fake{lines: many(limit + 5), takes: 200 * time.Millisecond}
		s := New(f, "fake", "", Few)
		s.limit = limit
		running(t, s)
		defer s.Look()()
		time.Sleep(75 * time.Second)
		b, _ := s.Board()
		assert.Equal(t, Live, b.State)
		assert.Len(t, b.Lines, limit)
		assert.Equal(t, 5, b.More)
		states := make(map[State]int)
		for _, l := range b.Lines {
			states[l.State]++
			assert.Less(t, b.Time.Sub(*l.AsOf), 70*time.Second)
		}
		assert.Zero(t, states[Unread])
		assert.Greater(t, states[Stale], states[Live], "most were read long ago, and say so")
	})
}

func TestTheServiceGoesAwayAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lines: many(3)}
		s := survey(t, f, "")
		defer s.Look()()
		time.Sleep(3 * time.Second)
		f.set(func() { f.fails = fmt.Errorf("%w: gone", coord.ErrUnavailable) })
		time.Sleep(8 * time.Second)
		b, _ := s.Board()
		assert.Equal(t, Stale, b.State)
		assert.Equal(t, "service is out of reach: gone", b.Error)
		require.Len(t, b.Lines, 3)
		assert.Equal(t, Stale, b.Lines[0].State)
		f.set(func() { f.fails = nil })
		time.Sleep(3 * time.Second)
		b, _ = s.Board()
		assert.Equal(t, Live, b.State)
		assert.Empty(t, b.Error)
		assert.Equal(t, Live, b.Lines[0].State)
	})
}

// If a service answers nothing at all, there is a board every second that says so.
func TestTheServiceStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lines: many(3)}
		s := survey(t, f, "")
		defer s.Look()()
		time.Sleep(3 * time.Second)
		f.set(func() { f.takes = time.Hour })
		time.Sleep(6500 * time.Millisecond)
		b, _ := s.Board()
		assert.Less(t, time.Since(b.Time), 1100*time.Millisecond)
		assert.Equal(t, Stale, b.State)
		assert.Equal(t, Stale, b.Lines[0].State)
		assert.NotEmpty(t, b.Error)
	})
}

// The service takes longer to list the names than the time for which lines are read at a stretch.
func TestASlowServiceIsReadAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lines: many(20), takes: 2 * time.Second}
		s := survey(t, f, "")
		defer s.Look()()
		time.Sleep(2 * time.Minute)
		b, _ := s.Board()
		require.Len(t, b.Lines, 20)
		for _, l := range b.Lines {
			require.NotNil(t, l.AsOf, l.Name)
			assert.Less(t, b.Time.Sub(*l.AsOf), time.Minute)
		}
	})
}

func TestOneLineIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lines: many(300), deny: map[string]error{}}
		for i := range 20 {
			f.deny[fmt.Sprintf("line%05d", i)] = coord.ErrDenied
		}
		f.deny["line00100"] = errors.New("odd")
		s := survey(t, f, "")
		defer s.Look()()
		time.Sleep(10 * time.Second)
		b, _ := s.Board()
		assert.Equal(t, Live, b.State)
		for i, l := range b.Lines {
			switch {
			case i < 20:
				assert.Equal(t, Unread, l.State)
				assert.Equal(t, coord.ErrDenied.Error(), l.Error)
			case i == 100:
				assert.Equal(t, "odd", l.Error)
			default:
				assert.Equal(t, Live, l.State, l.Name)
			}
		}
	})
}

func TestWhatTheBoardSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		s := survey(t, service.Client(), "")
		defer s.Look()()
		granted := make(chan *coord.Hold, 5)
		for i := range 5 {
			c := service.Client(coord.WithOwnerLabel(fmt.Sprint("worker ", i)))
			go func() {
				if h, err := mutex.New(c, "shop/orders").Lock(context.Background()); err == nil {
					granted <- h
				}
			}()
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		b, _ := s.Board()
		require.Len(t, b.Lines, 1)
		l := b.Lines[0]
		assert.Equal(t, "shop/orders", l.Name)
		assert.Equal(t, 1, l.Holding)
		assert.Equal(t, 4, l.Waiting)
		assert.Equal(t, "worker 0", l.Contenders[0].Label)
		assert.Nil(t, l.Contenders[0].Turn, "nobody saw it wait")
		assert.Equal(t, 4, l.Contenders[4].Position)
		assert.Zero(t, l.Contenders[4].Expected, "nobody has had a turn yet")

		for range 3 {
			time.Sleep(10 * time.Second)
			require.NoError(t, (<-granted).Release())
		}
		time.Sleep(2 * time.Second)
		b, _ = s.Board()
		l = b.Lines[0]
		require.Len(t, l.Contenders, 2)
		assert.Equal(t, "worker 3", l.Contenders[0].Label)
		assert.NotNil(t, l.Contenders[0].Turn)
		assert.InDelta(t, 10, l.Contenders[1].Expected, 5)

		require.NoError(t, (<-granted).Release())
		time.Sleep(time.Second)
		require.NoError(t, (<-granted).Release())
		time.Sleep(3 * time.Second)
		b, _ = s.Board()
		assert.Empty(t, b.Lines)
	})
}

// A line is read after it was asked for, and once for all who asked meanwhile.
func TestQuestionsForOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lines: many(2), takes: time.Second}
		s := survey(t, f, "")
		answers := make(chan int, 1000)
		for range 500 {
			go func() {
				nodes, err := s.Ask(within(t, time.Minute), "line00000")
				assert.NoError(t, err)
				answers <- len(nodes)
			}()
		}
		time.Sleep(500 * time.Millisecond) // the question is on its way
		f.set(func() { f.lines["line00000"] = append(f.lines["line00000"], coord.Node{ID: "new", Token: 2}) })
		nodes, err := s.Ask(within(t, time.Minute), "line00000")
		require.NoError(t, err)
		assert.Len(t, nodes, 2)
		for range 500 {
			<-answers
		}
		assert.LessOrEqual(t, f.asked.Load(), int64(atOnce+2))

		_, err = s.Ask(within(t, time.Minute), "/")
		assert.ErrorIs(t, err, coord.ErrInvalidName)
		f.set(func() { f.takes = time.Hour })
		_, err = s.Ask(within(t, time.Second), "line00001")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestTooManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: time.Second}
		s := survey(t, f, "")
		var busy atomic.Int64
		var all sync.WaitGroup
		for i := range 2000 {
			all.Go(func() {
				if _, err := s.Ask(within(t, 10*time.Second), fmt.Sprint("line", i)); errors.Is(err, ErrBusy) {
					busy.Add(1)
				}
			})
		}
		all.Wait()
		assert.InDelta(t, 1000, busy.Load(), 10)
		assert.LessOrEqual(t, f.most.Load(), int64(atOnce))
		time.Sleep(time.Hour)
	})
}

func TestWhatChanged(t *testing.T) {
	board := func(lines ...Line) *Board { return &Board{Lines: lines} }
	a, b, c := Line{Name: "a"}, Line{Name: "b"}, Line{Name: "c"}
	b2 := b
	b2.Waiting = 1
	now := time.Now()
	a2 := a
	a2.AsOf = &now
	different, gone := board(a2, b2, c).Changes(board(a, b))
	assert.Equal(t, []Line{b2, c}, different)
	assert.Empty(t, gone)
	different, gone = board(b).Changes(board(a, b, c))
	assert.Empty(t, different)
	assert.Equal(t, []string{"a", "c"}, gone)
}

// What the tool writes into the node of an ask, for turnwise alone, is no value.
func TestWhatAContenderAsksIsShown(t *testing.T) {
	r := &record{nodes: []coord.Node{
		{Kind: rules.Lead, Token: 7, Holds: true, Rank: 2, Data: []byte("here")},
		{Kind: rules.Lock, Token: 9, Asks: "please", Data: asks.Of([]coord.Token{7})},
	}}
	r.asOf = time.Now()
	l := r.show("a", Many, func(coord.Node) bool { return false }, time.Now())
	require.Len(t, l.Contenders, 2)
	assert.Equal(t, []any{"here", 2, ""}, []any{l.Contenders[0].Value, l.Contenders[0].Rank, l.Contenders[0].Asks})
	assert.Equal(t, []any{"", 0, "please"}, []any{l.Contenders[1].Value, l.Contenders[1].Rank, l.Contenders[1].Asks})
}

func TestABoardThatWasAskedForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lines: many(3), takes: 100 * time.Millisecond}
		s := survey(t, f, "")
		require.Len(t, s.Fresh(within(t, time.Minute)).Lines, 3)
		time.Sleep(time.Hour) // nobody looks
		f.set(func() { f.lines = many(5) })
		require.Len(t, s.Fresh(within(t, time.Minute)).Lines, 5, "what was read an hour ago is no answer")
		asked := f.asked.Load()
		require.Len(t, s.Fresh(within(t, time.Minute)).Lines, 5)
		assert.Equal(t, asked, f.asked.Load(), "what was read a moment ago is")
		before := s.Asked()
		assert.Equal(t, before, s.Asked())
		assert.EqualValues(t, asked, before.Questions)
	})
}

// With one line to look at, the board is as live as what is known of that.
func TestABoardOfOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{lines: many(3), deny: map[string]error{}}
		s := running(t, NewOfOne(f, "fake", "line00001"))
		defer s.Look()()
		time.Sleep(3 * time.Second)
		b, _ := s.Board()
		assert.Equal(t, Live, b.State)
		require.Len(t, b.Lines, 1)
		f.set(func() { f.deny["line00001"] = errors.New("odd") })
		time.Sleep(10 * time.Second)
		b, _ = s.Board()
		assert.Equal(t, Stale, b.State)
		assert.Equal(t, "odd", b.Error)
	})
}

// However much there is to think about, whoever asks for a board gets one at once, with what is known so far.
func TestNobodyWaitsWhileSomethingIsThoughtAbout(t *testing.T) {
	his := "his:"
	for weight := range 2 {
		for i := range 500 {
			his += fmt.Sprintf(" P%d:S%dof500", i, weight+1)
		}
	}
	s := New(&fake{}, "fake", "", Few)
	s.known["his"] = &record{nodes: scene(time.Now(), his)[0].all}
	begun, done := make(chan struct{}), make(chan struct{})
	go func() { close(begun); s.think(); close(done) }()
	<-begun
	time.Sleep(10 * time.Millisecond)
	boards := 0
	for thinking := true; thinking; boards++ {
		select {
		case <-done:
			thinking = false
		case <-time.After(time.Millisecond):
			s.Board()
		}
	}
	assert.Greater(t, boards, 10)
	assert.NotEmpty(t, s.thought.waits)
}

func TestATangledLineSaysSo(t *testing.T) {
	s := New(&fake{}, "fake", "", Few)
	s.known["a"], s.known["b"] = &record{}, &record{}
	s.thought.tangled = map[string]bool{"b": true}
	s.publish()
	b, _ := s.Board()
	assert.Empty(t, b.Lines[0].Error)
	assert.Equal(t, "too tangled to find every circle", b.Lines[1].Error)
}
