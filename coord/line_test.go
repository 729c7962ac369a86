package coord_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestALineShowsWhoHoldsAndWhoWaits(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client(coord.WithOwnerLabel("billing"))
		join := func(kind string) *coord.Hold {
			pass := coord.Rule{WaitFor: func(coord.Node, []coord.Node) []coord.Node { return nil }}
			h, err := c.Acquire(t.Context(), "line", kind, []byte(kind), pass)
			require.NoError(t, err)
			return h
		}
		for _, kind := range []string{"R", "R", "W", "R"} {
			defer join(kind).Release()
		}
		nodes := lineOf(t, s, "line")
		require.Len(t, nodes, 4)
		for i, holds := range []bool{true, true, false, false} {
			assert.Equal(t, holds, nodes[i].Holds, "%d", i)
			assert.Equal(t, nodes[i].Kind, string(nodes[i].Data))
			assert.Equal(t, "billing", nodes[i].Owner.Label)
			assert.NotEmpty(t, nodes[i].Owner.Host)
			assert.NotZero(t, nodes[i].Owner.PID)
			assert.True(t, nodes[i].Owner.Since.Equal(time.Now()))
			if i > 0 {
				assert.Greater(t, nodes[i].Token, nodes[i-1].Token)
			}
		}
		first, err := c.First(t.Context(), "line")
		require.NoError(t, err)
		assert.Equal(t, nodes[0], first)
		none, err := c.First(t.Context(), "other")
		require.NoError(t, err)
		assert.Zero(t, none)
	})
}

func TestANamespaceIsSeenFromOutsideOnly(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		inside, outside := s.Client(coord.WithNamespace("shop")), s.Client()
		a := enter(t, inside)
		b := enter(t, outside) // another line
		assert.Equal(t, "line", a.Node().Line)
		line, err := inside.Line(t.Context(), "line")
		require.NoError(t, err)
		require.Len(t, line, 1)
		assert.Equal(t, "line", line[0].Line)
		assert.Equal(t, a.Token(), line[0].Token)
		first, err := inside.First(t.Context(), "line")
		require.NoError(t, err)
		assert.Equal(t, "line", first.Line)
		assert.Equal(t, a.Token(), first.Token)

		names, err := inside.Lines(t.Context(), "")
		require.NoError(t, err)
		assert.Equal(t, []string{"line"}, names)
		names, err = outside.Lines(t.Context(), "")
		require.NoError(t, err)
		assert.Equal(t, []string{"line", "shop/line"}, names)
		names, err = outside.Lines(t.Context(), "sh")
		require.NoError(t, err)
		assert.Equal(t, []string{"shop/line"}, names)

		require.NoError(t, inside.Break(t.Context(), line[0]))
		assert.Empty(t, lineOf(t, s, "shop/line"))
		assert.NoError(t, b.Err())
		assert.Len(t, lineOf(t, s, "line"), 1)
		err = inside.Break(t.Context(), line[0])
		assert.ErrorIs(t, err, coord.ErrRemoved)
		assert.EqualError(t, err, `turnwise: break "line": node removed`)
		time.Sleep(time.Second)
		assert.ErrorIs(t, a.Release(), coord.ErrLost)
		require.NoError(t, b.Release())
	})
}

func TestBreakTellsTheServiceItsOwnNumbers(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := &meddler{}
		c := m.client(s, coord.WithNamespace("shop"))
		h := enter(t, c)
		there, err := m.Driver.Line(t.Context(), "shop/line")
		require.NoError(t, err)
		m.remove = func(n driver.Node) {
			assert.Equal(t, there[0].Line, n.Line)
			assert.Equal(t, there[0].ID, n.ID)
			assert.Equal(t, there[0].Token, n.Token)
			assert.Less(t, n.Token, h.Token())
		}
		require.NoError(t, c.Break(t.Context(), h.Node()))
		time.Sleep(time.Second)
		assert.ErrorIs(t, h.Release(), coord.ErrLost)
	})
}

// The node that an operator saw may have been amended since, and on some services has another ID then: it is the same
// contender.
func TestBreakFindsANodeThatWasAmendedSince(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		operator := s.Client()
		h, err := s.Client().Acquire(t.Context(), "line", "W", nil, exclusive)
		require.NoError(t, err)
		seen := lineOf(t, s, "line")[0]
		require.NoError(t, h.Amend(t.Context(), "R", nil))
		require.NotEqual(t, seen.ID, lineOf(t, s, "line")[0].ID)
		require.NoError(t, operator.Break(t.Context(), seen))
		assert.Empty(t, lineOf(t, s, "line"))
		h.Release()

		next := enter(t, s.Client())
		assert.ErrorIs(t, operator.Break(t.Context(), seen), coord.ErrRemoved)
		assert.NoError(t, next.Err())
		require.NoError(t, next.Release())
	})
}

func TestAClosedClientLooksAtNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h := enter(t, s.Client())
		n := lineOf(t, s, "line")[0]
		c := s.Client()
		require.NoError(t, c.Close())
		_, err := c.Line(t.Context(), "line")
		assert.ErrorIs(t, err, coord.ErrClosed)
		_, err = c.Lines(t.Context(), "")
		assert.ErrorIs(t, err, coord.ErrClosed)
		_, err = c.First(t.Context(), "line")
		assert.ErrorIs(t, err, coord.ErrClosed)
		assert.ErrorIs(t, c.Break(t.Context(), n), coord.ErrClosed)
		assert.NoError(t, h.Err())
		require.NoError(t, h.Release())
	})
}

func TestANameThatCannotBeIsRefusedEverywhere(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for c, name := range map[*coord.Client]string{s.Client(): "a//b", s.Client(coord.WithNamespace("..")): "line"} {
			_, err := c.Line(t.Context(), name)
			assert.ErrorIs(t, err, coord.ErrInvalidName)
			_, err = c.First(t.Context(), name)
			assert.ErrorIs(t, err, coord.ErrInvalidName)
			assert.ErrorIs(t, c.Break(t.Context(), coord.Node{Line: name, ID: "x"}), coord.ErrInvalidName)
			n := 0
			for _, err := range c.Watch(t.Context(), name) {
				assert.ErrorIs(t, err, coord.ErrInvalidName)
				n++
			}
			assert.Equal(t, 1, n)
		}
	})
}

func TestWhatAServiceSaysOfALineInTheWordsOfThisPackage(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var says error
		m := &meddler{
			line:  func(func() ([]driver.Node, error)) ([]driver.Node, error) { return nil, says },
			first: func(func() (driver.Look, error)) (driver.Look, error) { return driver.Look{}, says },
		}
		c := m.client(s)
		own := errors.New("disk full")
		for want, said := range map[error]error{
			coord.ErrDenied:      fmt.Errorf("%w: no permission", driver.ErrDenied),
			coord.ErrUnavailable: context.DeadlineExceeded,
			own:                  own,
		} {
			says = said
			_, err := c.Line(t.Context(), "line")
			assert.ErrorIs(t, err, want)
			assert.ErrorIs(t, err, said)
			_, err = c.First(t.Context(), "line")
			assert.ErrorIs(t, err, want)
			assert.ErrorContains(t, err, said.Error())
		}
	})
}

func TestWatchTellsOfEachChangeOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		var told diary
		var watching sync.WaitGroup
		watching.Go(func() {
			yields := 0
			for n, err := range s.Client(coord.WithNamespace("shop")).Watch(ctx, "line") {
				assert.NoError(t, err)
				if n.ID == "" {
					assert.Zero(t, n)
					told.write("nobody")
				} else {
					assert.Equal(t, "line", n.Line)
					assert.True(t, n.Holds)
					told.write("%d %s%s", n.Token, n.Kind, n.Data)
				}
				if yields++; yields > 10 {
					t.Error("it repeats itself")
					return
				}
			}
		})
		assert.Equal(t, []string{"nobody"}, told.read())
		time.Sleep(time.Minute)
		assert.Empty(t, told.read())

		c := s.Client(coord.WithNamespace("shop"))
		h := enter(t, c)
		assert.Equal(t, []string{fmt.Sprintf("%d lock", h.Token())}, told.read())
		behind := queue(t, s.Client(coord.WithNamespace("shop")))
		assert.Empty(t, told.read(), "the first is the same as before")
		require.NoError(t, h.Amend(t.Context(), "lock", []byte("!")))
		assert.Equal(t, []string{fmt.Sprintf("%d lock!", h.Token())}, told.read())
		require.NoError(t, h.Release())
		next := bubble.Enters(t, behind)
		assert.Equal(t, []string{fmt.Sprintf("%d lock", next.Token())}, told.read())
		require.NoError(t, next.Release())
		assert.Equal(t, []string{"nobody"}, told.read())
		cancel()
		watching.Wait()
		assert.Empty(t, told.read(), "the end of ctx is no news")
	})
}

func TestWatchGoesOnAfterTroubleAndSaysItAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		trouble := errors.New("connection lost")
		var away atomic.Bool
		m := &meddler{first: func(do func() (driver.Look, error)) (driver.Look, error) {
			if away.Load() {
				return driver.Look{}, trouble
			}
			return do()
		}}
		c := m.client(s)
		h := enter(t, s.Client())
		var yielded []string
		for n, err := range c.Watch(t.Context(), "line") {
			if err != nil {
				assert.ErrorIs(t, err, trouble)
				assert.Zero(t, n)
				yielded = append(yielded, "trouble")
				away.Store(len(yielded) < 5)
				continue
			}
			assert.Equal(t, h.Token(), n.Token)
			away.Store(true)
			if yielded = append(yielded, "holder"); len(yielded) > 1 {
				break
			}
		}
		assert.Equal(t, []string{"holder", "trouble", "trouble", "trouble", "trouble", "holder"}, yielded)
		require.NoError(t, h.Release())
	})
}

func TestWatchEndsWhereMoreWouldNotHelp(t *testing.T) {
	for name, c := range map[string]struct {
		says error
		end  func(*coord.Client)
		want error
	}{
		"denied":      {driver.ErrDenied, func(*coord.Client) {}, coord.ErrDenied},
		"closed":      {nil, func(c *coord.Client) { c.Close() }, coord.ErrClosed},
		"closed long": {nil, func(c *coord.Client) { time.AfterFunc(time.Minute, func() { c.Close() }) }, coord.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *mem.Service) {
				m := &meddler{first: func(do func() (driver.Look, error)) (driver.Look, error) {
					if c.says != nil {
						return driver.Look{}, c.says
					}
					return do()
				}}
				client := m.client(s)
				var last error
				n := 0
				for _, err := range client.Watch(t.Context(), "line") {
					if last = err; n == 0 {
						c.end(client)
					}
					if n++; n > 10 {
						t.Fatal("it goes on")
					}
				}
				assert.ErrorIs(t, last, c.want)
			})
		})
	}
}

// deaf can be asked, and does not tell: too many listen to its service, say.
type deaf struct {
	driver.Driver
	asked atomic.Int32
}

func (d *deaf) First(ctx context.Context, line string, most int, seen *driver.Look) (driver.Look, error) {
	d.asked.Add(1)
	if seen != nil {
		return driver.Look{}, errors.New("too many listen")
	}
	return d.Driver.First(ctx, line, most, nil)
}

func TestWhoCannotListenAsksSeldom(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		d := &deaf{Driver: s.Client().Driver()}
		c := coord.NewClient(d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range c.Watch(ctx, "line") {
		}
		assert.Less(t, d.asked.Load(), int32(300), "in a minute")
	})
}
