package group_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/group"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()
	ctx := context.Background()

	first, _ := group.New(service.Client(), "workers").Join(ctx, []byte("10.0.0.1:80"))
	for view, err := range group.New(service.Client(), "workers").Watch(ctx) {
		if err != nil {
			fmt.Println("what was said before may be stale:", err)
			continue
		}
		for _, m := range view.Members {
			fmt.Println(string(m.Data))
		}
		if len(view.Members) == 0 {
			break
		}
		first.Release()
	}
	// Output:
	// 10.0.0.1:80
}

func join(t *testing.T, g *group.Group, data string) *coord.Hold {
	t.Helper()
	h, err := g.Join(t.Context(), []byte(data))
	require.NoError(t, err)
	return h
}

func says(members []coord.Node) (all []string) {
	for _, m := range members {
		all = append(all, string(m.Data))
	}
	return all
}

func TestAllMembersAreThereAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		watcher := group.New(s.Client(), "workers")
		next, stop := iter.Pull2(watcher.Watch(t.Context()))
		defer stop()
		var last uint64
		sees := func(want ...string) group.View {
			t.Helper()
			v, err, ok := next()
			require.True(t, ok)
			require.NoError(t, err)
			require.Equal(t, want, says(v.Members))
			require.True(t, v.Number > last || v.Number == 0)
			last = v.Number
			now, err := watcher.Members(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, says(now))
			return v
		}
		sees()
		g := group.New(s.Client(), "workers")
		a := join(t, g, "a")
		sees("a")
		b := join(t, group.New(s.Client(), "workers"), "b")
		v := sees("a", "b")
		require.True(t, v.Has(a))
		require.True(t, v.Has(b))
		c := join(t, g, "c") // two of one process
		sees("a", "b", "c")
		require.NoError(t, b.Release())
		v = sees("a", "c")
		require.False(t, v.Has(b))
		require.NoError(t, g.Update(t.Context(), c, []byte("C")))
		sees("a", "C")
		require.NoError(t, a.Release())
		require.NoError(t, c.Release())
	})
}

func TestAMemberThatDiesIsGoneWithinItsTTL(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		unlucky := s.Client()
		h := join(t, group.New(unlucky, "workers"), "unlucky")
		stays := join(t, group.New(s.Client(), "workers"), "stays")
		heal := s.Partition(unlucky)
		defer heal()
		began := time.Now()
		for v, err := range group.New(s.Client(), "workers").Watch(t.Context()) {
			require.NoError(t, err)
			if len(v.Members) == 1 {
				require.Error(t, h.Err(), "it knew before the others")
				require.True(t, v.Has(stays))
				break
			}
		}
		require.Less(t, time.Since(began), time.Minute)
		require.NoError(t, stays.Release())
	})
}

// Whatever is missed in between, all see the same members in the end, in the same order, under the same number.
func TestManyComeAndGoAndAllAgree(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var all sync.WaitGroup
		ends := make([]group.View, 3)
		for i := range ends {
			all.Go(func() {
				var last uint64
				for v, err := range group.New(s.Client(), "workers").Watch(ctx) {
					if !assert.NoError(t, err) || !assert.GreaterOrEqual(t, v.Number, last) {
						return
					}
					last = v.Number
					if len(v.Members) == 10 && string(v.Members[9].Data) == "last" {
						ends[i] = v
						return
					}
				}
			})
		}
		var stay []*coord.Hold
		for i := range 50 {
			data := fmt.Sprint(i)
			if i == 45 {
				data = "last"
			}
			h := join(t, group.New(s.Client(), "workers"), data)
			if i%5 > 0 {
				require.NoError(t, h.Release())
				continue
			}
			stay = append(stay, h)
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
		all.Wait()
		for _, v := range ends[1:] {
			assert.Equal(t, says(ends[0].Members), says(v.Members))
			assert.Equal(t, ends[0].Number, v.Number)
			assert.True(t, slices.EqualFunc(ends[0].Members, v.Members, func(a, b coord.Node) bool { return a.Token == b.Token }))
		}
		for _, h := range stay {
			require.NoError(t, h.Release())
		}
	})
}

func TestWhoStandsThereForAnotherRecipeIsNoMember(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		g := group.New(s.Client(), "workers")
		a := join(t, g, "a")
		writer := rwlock.New(s.Client(), "workers").LockChan(t.Context())
		time.Sleep(time.Second)
		behind := coord.Chan(t.Context(), func(ctx context.Context) (*coord.Hold, error) { return g.Join(ctx, []byte("b")) })
		time.Sleep(time.Second)
		now, err := g.Members(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, says(now), "the writer waits, and whoever came after it")
		require.NoError(t, a.Release())
		w := <-writer
		require.NoError(t, w.Err)
		require.NoError(t, w.Hold.Release())
		b := <-behind
		require.NoError(t, b.Err)
		require.NoError(t, b.Hold.Release())
	})
}

func TestOnlyAMemberIsUpdated(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		g := group.New(c, "workers")
		h := join(t, g, "a")
		for name, err := range map[string]error{
			"nil":            g.Update(t.Context(), nil, nil),
			"another group":  group.New(c, "others").Update(t.Context(), h, nil),
			"another client": group.New(s.Client(), "workers").Update(t.Context(), h, nil),
			"another recipe's": func() error {
				m, err := mutex.New(c, "lock").Lock(t.Context())
				require.NoError(t, err)
				defer m.Release()
				return g.Update(t.Context(), m, nil)
			}(),
			"another recipe's of that name": func() error {
				m, err := mutex.New(c, "both").Lock(t.Context())
				require.NoError(t, err)
				defer m.Release()
				err = group.New(c, "both").Update(t.Context(), m, nil)
				require.Equal(t, rules.Lock, m.Node().Kind)
				return err
			}(),
		} {
			require.ErrorIs(t, err, coord.ErrInvalid, name)
		}
		require.NoError(t, h.Release())
		require.ErrorIs(t, g.Update(t.Context(), h, nil), coord.ErrReleased)
		err := g.Do(t.Context(), []byte("b"), func(ctx context.Context, h *coord.Hold) error {
			now, err := g.Members(ctx)
			require.Equal(t, []string{"b"}, says(now))
			return errors.Join(err, errors.New("over"))
		})
		require.EqualError(t, err, "over")
	})
}
