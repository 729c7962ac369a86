package coord_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

// from makes the nodes of a client those of another process.
func from(s *mem.Service, pid int, opts ...coord.Option) *coord.Client {
	m := &meddler{join: func(e driver.Entry, do joins) (driver.Place, []driver.Node, error) {
		e.Owner.PID = pid
		return do(e)
	}}
	return m.client(s, opts...)
}

func TestAWaitThatRunsOutInACircleSaysSo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ours, theirs := s.Client(), from(s, 7, coord.WithOwnerLabel("billing"))
		take := func(ctx context.Context, c *coord.Client, line string, opts ...coord.AcquireOption) (*coord.Hold, error) {
			return c.Acquire(ctx, line, "lock", nil, exclusive, opts...)
		}
		orders, err := take(t.Context(), ours, "orders")
		require.NoError(t, err)
		stock, err := take(t.Context(), theirs, "stock")
		require.NoError(t, err)

		_, err = take(t.Context(), ours, "stock", coord.MaxWait(time.Second))
		require.ErrorIs(t, err, coord.ErrBusy)
		var e *coord.Error
		require.ErrorAs(t, err, &e)
		assert.Empty(t, e.Circle, "they wait for nothing")

		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error)
		go func() {
			_, err := take(ctx, theirs, "orders")
			waited <- err
		}()
		began := time.Now()
		_, err = take(t.Context(), ours, "stock", coord.MaxWait(time.Second))
		assert.Less(t, time.Since(began), 2*time.Second)
		require.ErrorIs(t, err, coord.ErrBusy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "orders", e.Circle)
		assert.Equal(t, stock.Node().ID, e.Blocker.ID)
		assert.Equal(t, stock.Token(), e.Blocker.Token)
		assert.Equal(t, 7, e.Blocker.Owner.PID)
		assert.ErrorContains(t, err, `each waits for the other, since this client has "orders"`)
		assert.ErrorContains(t, err, "billing")

		_, err = take(t.Context(), ours, "stock", coord.MaxWait(0))
		require.ErrorAs(t, err, &e)
		assert.Empty(t, e.Circle, "who does not wait closes no circle")
		cancel()
		assert.Error(t, <-waited)
		require.NoError(t, orders.Release())
		require.NoError(t, stock.Release())
	})
}

// cast is those who take lines and wait for others. They leave at the end.
type cast struct {
	t       *testing.T
	s       *mem.Service
	ctx     context.Context
	cancel  context.CancelFunc
	waiting sync.WaitGroup
	holds   []*coord.Hold
}

func newCast(t *testing.T, s *mem.Service) *cast {
	ctx, cancel := context.WithCancel(t.Context())
	return &cast{t: t, s: s, ctx: ctx, cancel: cancel}
}

func (x *cast) takes(c *coord.Client, line, kind string) {
	x.t.Helper()
	h, err := c.Acquire(x.ctx, line, kind, nil, coord.Rule{WaitFor: rules.For(kind), Sight: rules.Sight(kind)})
	require.NoError(x.t, err)
	x.holds = append(x.holds, h)
}

func (x *cast) waits(c *coord.Client, line, kind string) {
	x.waiting.Go(func() {
		_, err := c.Acquire(x.ctx, line, kind, nil, coord.Rule{WaitFor: rules.For(kind), Sight: rules.Sight(kind)})
		assert.ErrorIs(x.t, err, context.Canceled)
	})
	synctest.Wait()
}

func (x *cast) leaves() {
	x.cancel()
	x.waiting.Wait()
	for _, h := range x.holds {
		assert.NoError(x.t, h.Release())
	}
}

// ring has processes take a line each; all but the first wait for the line of the next, and the last one waits for what the first has
// if that closes the circle. The first one still has to wait, for the line that is returned.
func (x *cast) ring(lines []string, closed bool) (first *coord.Client, next string) {
	clients := []*coord.Client{x.s.Client()}
	for i := range lines[1:] {
		clients = append(clients, from(x.s, 101+i))
	}
	for i, c := range clients {
		x.takes(c, lines[i], rules.Lock)
	}
	for i, c := range clients[1:] {
		if to := (i + 2) % len(lines); to > 0 || closed {
			x.waits(c, lines[to], rules.Lock)
		}
	}
	return clients[0], lines[1]
}

// runsOut waits for a line for a second, as nobody gives it back.
func runsOut(t *testing.T, c *coord.Client, line string) *coord.Error {
	t.Helper()
	began := time.Now()
	_, err := c.Acquire(t.Context(), line, "lock", nil, exclusive, coord.MaxWait(time.Second))
	assert.Less(t, time.Since(began), 2*time.Second)
	require.ErrorIs(t, err, coord.ErrBusy)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var e *coord.Error
	require.ErrorAs(t, err, &e)
	return e
}

func TestAWaitThatRunsOutInALongerCircleSaysSo(t *testing.T) {
	for _, lines := range [][]string{{"a", "b", "c"}, {"shop/a", "shop/b", "shop/c", "shop/d"}} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			x := newCast(t, s)
			defer x.leaves()
			others := from(s, 7)
			for i := range 30 { // of which there is nothing to know
				x.takes(others, fmt.Sprint("z/", i), rules.Lock)
			}
			c, line := x.ring(lines, true)
			e := runsOut(t, c, line)
			assert.Equal(t, lines[0], e.Circle)
			assert.Equal(t, 101, e.Blocker.Owner.PID)
			assert.ErrorContains(t, e, fmt.Sprintf("%d processes wait in a circle: ", len(lines)))
			for i := range len(lines) - 1 {
				assert.ErrorContains(t, e, fmt.Sprintf("/%d for %q", 101+i, lines[(i+2)%len(lines)]))
			}
			assert.ErrorContains(t, e, fmt.Sprintf("for %q, which this client has", lines[0]))
		})
	}
}

func TestAChainIsNoCircle(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		x := newCast(t, s)
		defer x.leaves()
		c, line := x.ring([]string{"a", "b", "c", "d"}, false)
		assert.Empty(t, runsOut(t, c, line).Circle, "the last one waits for nobody")
		x.waits(from(s, 7), "a", rules.Lock)
		assert.Empty(t, runsOut(t, c, line).Circle, "who waits for the first has nothing")
	})
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		x := newCast(t, s)
		defer x.leaves()
		first, second, third := s.Client(), from(s, 101), from(s, 102)
		x.takes(first, "a", rules.Lock)
		x.takes(second, "b", rules.Lock)
		x.takes(second, "c", rules.Reader)
		x.takes(third, "c", rules.Reader)
		x.waits(third, "a", rules.Lock)
		x.waits(second, "c", rules.Writer)
		assert.Empty(t, runsOut(t, first, "b").Circle, "another thread of the second waits for the third")
	})
}

// looks counts what a client asks for.
type looks struct {
	driver.Driver
	line, lines int
}

func (d *looks) Line(ctx context.Context, line string) ([]driver.Node, error) {
	d.line++
	return d.Driver.Line(ctx, line)
}

func (d *looks) Lines(ctx context.Context, prefix string) ([]string, error) {
	d.lines++
	time.Sleep(100 * time.Millisecond) // there are many
	return d.Driver.Lines(ctx, prefix)
}

func TestTheSearchForACircleIsBounded(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		x := newCast(t, s)
		defer x.leaves()
		theirs := from(s, 7)
		for i := range 30 {
			x.takes(theirs, fmt.Sprint("l/", i), rules.Lock)
		}
		d := &looks{Driver: s.Client().Driver()}
		c := coord.NewClient(d)
		runsOut(t, c, "l/0")
		assert.Equal(t, 0, d.line+d.lines, "it holds nothing")

		x.takes(c, "mine", rules.Lock)
		runsOut(t, c, "l/0")
		assert.Equal(t, []int{2, 0}, []int{d.line, d.lines}, "nobody waits for what it holds")

		x.waits(from(s, 8), "mine", rules.Lock)
		d.line = 0
		runsOut(t, c, "l/0")
		assert.Equal(t, []int{2 + 8, 1}, []int{d.line, d.lines})
		runsOut(t, c, "l/0")
		assert.Equal(t, 1, d.lines, "they were listed a moment ago")
		time.Sleep(3 * time.Second)
		runsOut(t, c, "l/0")
		assert.Equal(t, 2, d.lines)
	})
}

// spoilt is a service on which a neighbour has spoilt a line.
type spoilt struct {
	driver.Driver
	which string
}

func (d *spoilt) Line(ctx context.Context, line string) ([]driver.Node, error) {
	if line == d.which {
		return nil, fmt.Errorf("%w: the line %q is not ours", driver.ErrDenied, line)
	}
	return d.Driver.Line(ctx, line)
}

func (d *spoilt) Lines(ctx context.Context, prefix string) ([]string, error) {
	all, err := d.Driver.Lines(ctx, prefix)
	return append([]string{d.which}, all...), err
}

func TestALineThatIsSpoiltHidesNoCircle(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		x := newCast(t, s)
		defer x.leaves()
		c := coord.NewClient(&spoilt{s.Client().Driver(), "shop/0"})
		second, third := from(s, 101), from(s, 102)
		x.takes(c, "shop/a", rules.Lock)
		x.takes(second, "shop/b", rules.Lock)
		x.takes(third, "shop/c", rules.Lock)
		x.waits(second, "shop/c", rules.Lock)
		x.waits(third, "shop/a", rules.Lock)
		assert.Equal(t, "shop/a", runsOut(t, c, "shop/b").Circle)
	})
}

func TestACircleGoesThroughReadersAndPermits(t *testing.T) {
	for kind, asked := range map[string]string{rules.Reader: rules.Writer, rules.Permits(1, 2): rules.Permits(1, 2)} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			x := newCast(t, s)
			defer x.leaves()
			first, second, third, fourth := s.Client(), from(s, 101), from(s, 102), from(s, 103)
			x.takes(first, "a", rules.Lock)
			x.takes(second, "b", rules.Lock)
			x.takes(fourth, "c", kind)
			x.takes(third, "c", kind)
			x.waits(second, "c", asked)
			x.waits(third, "a", rules.Lock)
			e := runsOut(t, first, "b")
			assert.Equal(t, "a", e.Circle, kind)
			assert.ErrorContains(t, e, "3 processes wait in a circle: ")
		})
	}
}

// madeUp is a service on which somebody else may make up a line.
type madeUp struct {
	spoilt
	nodes []driver.Node
}

func (d *madeUp) Line(ctx context.Context, line string) ([]driver.Node, error) {
	if line == d.which {
		return d.nodes, nil
	}
	return d.Driver.Line(ctx, line)
}

// Whoever waits in a line waits for all who have it: that is said once for each line, and only the first thousand there are looked at.
func TestALineOfAStrangerCostsLittleToLookAt(t *testing.T) {
	for _, c := range []struct {
		readers, writers int
		circle           string
	}{{400, 400, "shop/a"}, {8000, 8000, ""}} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			x := newCast(t, s)
			defer x.leaves()
			d := &madeUp{spoilt: spoilt{s.Client().Driver(), "shop/0"}}
			client, second, third := coord.NewClient(d), from(s, 101), from(s, 102)
			x.takes(client, "shop/a", rules.Lock)
			x.takes(second, "shop/b", rules.Lock)
			x.takes(third, "shop/c", rules.Lock)
			x.waits(third, "shop/a", rules.Lock)
			stand := func(kind string, owner driver.Owner, pid int) {
				owner.PID = pid
				d.nodes = append(d.nodes, driver.Node{Line: d.which, Kind: kind, Token: driver.Token(len(d.nodes) + 1), Owner: owner})
			}
			us := x.holds[0].Node().Owner
			stand(rules.Reader, us, 102)
			for i := range c.readers {
				stand(rules.Reader, us, 1_000_000+i)
			}
			for i := range c.writers {
				stand(rules.Writer, us, 2_000_000+i%2)
			}
			stand(rules.Writer, us, 101)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			e := runsOut(t, client, "shop/b")
			runtime.ReadMemStats(&after)
			assert.Equal(t, c.circle, e.Circle)
			assert.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(64), "megabytes")
		})
	}
}
