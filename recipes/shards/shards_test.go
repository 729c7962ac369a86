package shards_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/group"
	"github.com/turnwise/turnwise/recipes/shards"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var started sync.WaitGroup
	started.Add(4)
	go func() {
		started.Wait()
		cancel() // on SIGTERM, say
	}()

	err := shards.New(service.Client(), "partitions", 4).Run(ctx, func(ctx context.Context, shard int, h *coord.Hold) error {
		started.Done()
		<-ctx.Done() // work on the shard, and write with h.Token()
		return nil
	})
	fmt.Println(err)
	// Output:
	// <nil>
}

// board records who works on what.
type board struct {
	t     *testing.T
	mu    sync.Mutex
	on    map[int]string
	token map[int]coord.Token
	moves int
	idle  map[int]time.Time // since when
	worst time.Duration
}

func newBoard(t *testing.T) *board {
	return &board{t: t, on: make(map[int]string), token: make(map[int]coord.Token), idle: make(map[int]time.Time)}
}

func (b *board) works(who string, takes time.Duration) func(ctx context.Context, shard int, h *coord.Hold) error {
	return func(ctx context.Context, shard int, h *coord.Hold) error {
		b.mu.Lock()
		assert.Empty(b.t, b.on[shard], "shard %d has two owners", shard)
		assert.Greater(b.t, h.Token(), b.token[shard])
		b.on[shard], b.token[shard] = who, h.Token()
		b.moves++
		if since, was := b.idle[shard]; was {
			b.worst = max(b.worst, time.Since(since))
		}
		b.mu.Unlock()
		<-ctx.Done()
		if h.Err() == nil { // it may finish what it has begun
			time.Sleep(takes)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.on, shard)
		b.idle[shard] = time.Now()
		return context.Cause(ctx)
	}
}

func (b *board) owners() map[int]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := make(map[int]string)
	for shard, who := range b.on {
		now[shard] = who
	}
	return now
}

// counts forgets what has been counted, and returns it.
func (b *board) counts() (moves int, worst time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	moves, worst = b.moves, b.worst
	b.moves, b.worst = 0, 0
	return moves, worst
}

const count = 256

// run has a member work until the returned function is called, or the test ends.
func run(t *testing.T, all *sync.WaitGroup, c *coord.Client, b *board, who string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	all.Go(func() {
		defer close(ended)
		assert.NoError(t, shards.New(c, "partitions", count).Run(ctx, b.works(who, 10*time.Millisecond)))
	})
	return func() {
		cancel()
		<-ended
	}
}

func TestEveryShardHasOneOwnerAndMovesOnlyIfItHasTo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		b := newBoard(t)
		var all sync.WaitGroup
		var stop []func()
		for i := range 7 {
			stop = append(stop, run(t, &all, s.Client(), b, fmt.Sprint(i)))
		}
		time.Sleep(10 * time.Second)
		before := b.owners()
		require.Len(t, before, count)
		b.counts()

		stop = append(stop, run(t, &all, s.Client(), b, "new"))
		time.Sleep(10 * time.Second)
		after := b.owners()
		require.Len(t, after, count)
		moved, worst := b.counts()
		for shard, who := range after {
			require.True(t, who == before[shard] || who == "new", "shard %d went from %s to %s", shard, before[shard], who)
			if who == "new" {
				moved--
			}
		}
		require.Zero(t, moved, "each moved once")
		require.Less(t, worst, time.Second, "the newcomer stood in line already")

		stop[3]()
		time.Sleep(10 * time.Second)
		left := b.owners()
		require.Len(t, left, count)
		for shard, who := range left {
			require.True(t, who == after[shard] || after[shard] == "3", "shard %d went from %s to %s", shard, after[shard], who)
		}
		_, worst = b.counts()
		require.Less(t, worst, time.Second, "those who take over stood in line already, or soon did")
		for i, f := range stop {
			if i != 3 {
				f()
			}
		}
		all.Wait()
		require.Empty(t, b.owners())
	})
}

func TestWhatADeadMemberOwnedGoesToTheOthersWithinItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.WithTTL(10 * time.Second))
		defer s.Close()
		b := newBoard(t)
		var all sync.WaitGroup
		unlucky := s.Client()
		stop := []func(){run(t, &all, unlucky, b, "unlucky"), run(t, &all, s.Client(), b, "other"), run(t, &all, s.Client(), b, "third")}
		time.Sleep(10 * time.Second)
		heal := s.Partition(unlucky)
		time.Sleep(30 * time.Second)
		now := b.owners()
		require.Len(t, now, count)
		for _, who := range now {
			require.NotEqual(t, "unlucky", who)
		}
		heal()
		time.Sleep(30 * time.Second)
		mine := 0
		for _, who := range b.owners() {
			if who == "unlucky" {
				mine++
			}
		}
		require.Positive(t, mine, "it has joined again")
		for _, f := range stop {
			f()
		}
		all.Wait()
	})
}

func TestWorkThatFailsEndsTheRun(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		trouble := errors.New("trouble")
		err := shards.New(s.Client(), "partitions", 8).Run(t.Context(), func(ctx context.Context, shard int, _ *coord.Hold) error {
			if shard == 5 {
				time.Sleep(time.Second)
				return trouble
			}
			<-ctx.Done()
			return ctx.Err()
		})
		require.Equal(t, trouble, err)
	})
}

func TestAShardThatIsDoneStaysWithItsOwner(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var mu sync.Mutex
		runs := 0
		require.NoError(t, shards.New(s.Client(), "partitions", 8).Run(ctx, func(context.Context, int, *coord.Hold) error {
			mu.Lock()
			defer mu.Unlock()
			runs++
			return nil
		}))
		require.Equal(t, 8, runs)
	})
}

func TestMembersMustCountAlike(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error)
		go func() { first <- shards.New(s.Client(), "partitions", 8).Run(ctx, idle) }()
		time.Sleep(time.Second)
		for _, n := range []int{7, 0, -1} {
			require.ErrorIs(t, shards.New(s.Client(), "partitions", n).Run(ctx, idle), coord.ErrInvalid)
		}
		require.ErrorIs(t, shards.New(s.Client(), "partitions", 8).Run(ctx, nil), coord.ErrInvalid)
		now, err := group.New(s.Client(), "partitions/members").Members(ctx)
		require.NoError(t, err)
		require.Len(t, now, 1)
		cancel()
		require.NoError(t, <-first)
	})
}

// idle works until its shard moves.
func idle(ctx context.Context, _ int, _ *coord.Hold) error {
	<-ctx.Done()
	return nil
}

// A write that is refused because the shard has another owner by now is no reason to give up all others.
func TestWhatFailsAfterALossIsTriedAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := s.Client()
		began := make(chan *coord.Hold, 100)
		ended := make(chan error)
		go func() {
			ended <- shards.New(c, "partitions", 8).Run(ctx, func(ctx context.Context, shard int, h *coord.Hold) error {
				began <- h
				<-ctx.Done()
				if h.Err() != nil {
					return errors.New("refused")
				}
				return nil
			})
		}()
		for range 20 {
			var last *coord.Hold
			for range 8 {
				last = <-began
			}
			require.True(t, s.Remove(last.Node()))
			select {
			case <-began:
			case err := <-ended:
				t.Fatal(err)
			}
			s.Expire(c)
		}
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestWhatFailsAtTheEndIsSaid(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		trouble := errors.New("trouble")
		require.Equal(t, trouble, shards.New(s.Client(), "partitions", 8).Run(ctx, func(ctx context.Context, shard int, _ *coord.Hold) error {
			<-ctx.Done()
			if shard == 5 {
				return trouble
			}
			return context.Cause(ctx)
		}))
	})
}

func TestWhyItIsEndedIsNoFailure(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for _, why := range []error{coord.ErrClosed, errors.New("over")} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { cancel(why) })
			require.NoError(t, shards.New(s.Client(), "partitions", 8).Run(ctx, func(ctx context.Context, shard int, h *coord.Hold) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}))
		}
	})
}

func TestAServiceThatIsNotReachedIsSaid(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		heal := s.Partition(c)
		defer heal()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, shards.New(c, "partitions", 8).Run(ctx, idle), coord.ErrUnavailable)
	})
}

// The goroutine of a function can end without a return, as t.FailNow does it.
func TestAFunctionThatDoesNotReturnEndsTheRun(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, shards.New(s.Client(), "partitions", 8).Run(ctx, func(ctx context.Context, shard int, _ *coord.Hold) error {
			if shard == 5 {
				runtime.Goexit()
			}
			<-ctx.Done()
			return nil
		}), coord.ErrInvalid)
	})
}

// Whoever counts otherwise, or has joined the group without any work to do, would keep what is his from those who work.
func TestWhoCountsOtherwiseOwnsNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		b := newBoard(t)
		var all sync.WaitGroup
		stop := run(t, &all, s.Client(), b, "first")
		time.Sleep(10 * time.Second)
		b.counts()
		h, err := group.New(s.Client(), "partitions/members").Join(t.Context(), []byte("10.0.0.1:80"))
		require.NoError(t, err)
		for range 10 {
			require.ErrorIs(t, shards.New(s.Client(), "partitions", count+1).Run(t.Context(), idle), coord.ErrInvalid)
			time.Sleep(time.Second)
		}
		moves, _ := b.counts()
		require.Zero(t, moves)
		require.Len(t, b.owners(), count)
		require.NoError(t, h.Release())
		stop()
		all.Wait()
	})
}

// Who may write the line of the group decides who works. He gives no shard two owners.
func TestWhoForgesTheGroupEndsTheWorkAndGivesNothingAway(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		members := group.New(s.Client(), "partitions/members")
		h, err := members.Join(t.Context(), []byte(strconv.Itoa(count)))
		require.NoError(t, err)
		b := newBoard(t)
		ends := make(chan error)
		go func() {
			ends <- shards.New(s.Client(), "partitions", count).Run(t.Context(), b.works("honest", time.Millisecond))
		}()
		time.Sleep(10 * time.Second)
		require.NotEmpty(t, b.owners())
		require.NoError(t, members.Update(t.Context(), h, []byte("0")))
		require.ErrorIs(t, <-ends, coord.ErrInvalid)
		require.Empty(t, b.owners())
		require.NoError(t, h.Release())
	})
}

func TestAShardThatIsTakenAwayNowAndThenGoesOnSoon(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := make(chan *coord.Hold)
		ended := make(chan error)
		go func() {
			ended <- shards.New(s.Client(), "partitions", 1).Run(ctx, func(ctx context.Context, _ int, h *coord.Hold) error {
				began <- h
				<-ctx.Done()
				return nil
			})
		}()
		h := <-began
		for range 10 {
			time.Sleep(time.Minute)
			require.True(t, s.Remove(h.Node()))
			removed := time.Now()
			h = <-began
			require.Less(t, time.Since(removed), time.Second)
		}
		cancel()
		require.NoError(t, <-ended)
	})
}

// spoil writes what is no line into the register of one, or takes that away again.
func spoil(t *testing.T, store *memory.Store, line string, value []byte) {
	t.Helper()
	key := "line/" + line
	it, err := store.Read(t.Context(), key)
	require.NoError(t, err)
	swap := register.Swap{Key: key, Old: it.Version}
	if value != nil {
		swap.Next, swap.Value = register.NewVersion(), value
	}
	_, err = store.Swap(t.Context(), swap)
	require.NoError(t, err)
}

// Who can write the line of one shard keeps this one from being worked on. The others go on, and so does this one when its line is well again.
func TestAShardThatIsRefusedLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		spoil(t, store, "partitions/3", []byte("spoilt"))
		b := newBoard(t)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		var refused []time.Time
		for i := range 3 {
			c := coord.NewClient(register.New(store))
			defer c.Close()
			all.Go(func() {
				report := shards.WithReport(func(shard int, err error) {
					assert.Equal(t, 3, shard)
					assert.ErrorIs(t, err, coord.ErrDenied)
					mu.Lock()
					defer mu.Unlock()
					refused = append(refused, time.Now())
				})
				assert.NoError(t, shards.New(c, "partitions", 64, report, nil).Run(ctx, b.works(fmt.Sprint(i), time.Millisecond)))
			})
		}
		time.Sleep(10 * time.Second)
		b.counts()
		time.Sleep(10 * time.Minute)
		require.Len(t, b.owners(), 63)
		require.NotContains(t, b.owners(), 3)
		moves, _ := b.counts()
		require.Zero(t, moves, "nothing else has moved")
		mu.Lock()
		asked := len(refused)
		mu.Unlock()
		assert.Less(t, asked, 25)
		assert.Greater(t, asked, 10)
		spoil(t, store, "partitions/3", nil)
		time.Sleep(2 * time.Minute)
		require.Len(t, b.owners(), 64)
		cancel()
		all.Wait()
	})
}

// Where each member owns a shard or two, one that is spoilt may be all that a member owns. It would end the members one after the other.
func TestAShardThatIsRefusedEndsNoMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		spoil(t, store, "partitions/1", []byte("spoilt"))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 6 {
			c := coord.NewClient(register.New(store))
			defer c.Close()
			all.Go(func() { assert.NoError(t, shards.New(c, "partitions", 3).Run(ctx, idle)) })
		}
		time.Sleep(10 * time.Minute)
		cancel()
		all.Wait()
	})
}

// Without the right to any of the shards, or to the group, there is nothing to wait for.
func TestWhoIsRefusedAllIsTold(t *testing.T) {
	for what, lines := range map[string][]string{
		"all shards": {"partitions/0", "partitions/1", "partitions/2", "partitions/3"},
		"the group":  {"partitions/members"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				for _, line := range lines {
					spoil(t, store, line, []byte("spoilt"))
				}
				c := coord.NewClient(register.New(store))
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.ErrorIs(t, shards.New(c, "partitions", 4).Run(ctx, idle), coord.ErrDenied)
				require.NoError(t, ctx.Err())
			})
		})
	}
}
