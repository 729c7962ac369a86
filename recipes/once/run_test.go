package once_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/once"
	"github.com/turnwise/turnwise/verify/bubble"
)

// diary is which slots were run, by the second in which they begin.
type diary struct {
	mu    sync.Mutex
	slots []int64
}

func (d *diary) note(slot time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slots = append(d.slots, slot.Unix()-begun)
}

func (d *diary) all() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.slots)
}

// begun is when a bubble begins, at midnight.
var begun = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// runs runs a job for so long in a process of its own.
func runs(t *testing.T, s *mem.Service, policy once.Policy, missed once.Missed, d time.Duration, fn func(slot time.Time) error, opts ...once.Option) {
	c := s.Client()
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	err := once.New(c, "job", policy, opts...).Run(ctx, once.Every(time.Second), missed, func(_ context.Context, slot time.Time, _ *coord.Hold) error {
		return fn(slot)
	})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func forgets(t *testing.T, s *mem.Service) {
	t.Helper()
	require.NoError(t, s.Client().Forget(t.Context(), "job"))
}

func TestEachSlotIsRunInOneProcess(t *testing.T) {
	for _, missed := range []once.Missed{once.SkipMissed, once.RunLast, once.RunAll} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var d diary
			var all sync.WaitGroup
			for i := range 3 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
					runs(t, s, once.AtMostOnce, missed, 10500*time.Millisecond, func(slot time.Time) error {
						d.note(slot)
						return nil
					})
				})
			}
			all.Wait()
			assert.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, d.all())
			forgets(t, s)
		})
	}
}

// Two slots are run, then nobody is there for a while.
func TestWhatBecomesOfSlotsThatBeganWhileNobodyWasThere(t *testing.T) {
	for missed, want := range map[once.Missed][]int64{
		once.SkipMissed: {1, 2, 8, 9},
		once.RunLast:    {1, 2, 7, 8, 9},
		once.RunAll:     {1, 2, 3, 4, 5, 6, 7, 8, 9},
	} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var d diary
			var skipped []int64
			told := once.WithReport(func(e once.Event) {
				assert.NoError(t, e.Err)
				if !e.Skipped.IsZero() {
					skipped = append(skipped, e.Skipped.Unix()-begun)
				}
			})
			note := func(slot time.Time) error { d.note(slot); return nil }
			runs(t, s, once.AtMostOnce, missed, 2500*time.Millisecond, note, told)
			time.Sleep(5 * time.Second) // it is 7.5 s
			runs(t, s, once.AtMostOnce, missed, 2*time.Second, note, told)
			assert.Equal(t, want, d.all())
			if missed == once.RunLast {
				assert.Equal(t, []int64{3}, skipped, "3 to 6 were left out")
			}
			forgets(t, s)
		})
	}
}

// The job takes two and a half slots.
func TestWhatBecomesOfSlotsThatBeginWhileTheJobRuns(t *testing.T) {
	for missed, want := range map[once.Missed][]int64{
		once.SkipMissed: {1, 4, 7},
		once.RunLast:    {1, 3, 6, 8},
		once.RunAll:     {1, 2, 3, 4},
	} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var d diary
			runs(t, s, once.AtMostOnce, missed, 9*time.Second, func(slot time.Time) error {
				d.note(slot)
				time.Sleep(2500 * time.Millisecond)
				return nil
			})
			assert.Equal(t, want, d.all())
			forgets(t, s)
		})
	}
}

func TestASlotThatFailedIsRunAgainUntilTheNextOneBegins(t *testing.T) {
	for _, policy := range []once.Policy{once.AtMostOnce, once.AtLeastOnce} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var d diary
			broken, reports := errors.New("broken"), 0
			c := s.Client()
			ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
			defer cancel()
			j := once.New(c, "job", policy, once.WithReport(func(e once.Event) {
				assert.True(t, e.Ran)
				assert.ErrorIs(t, e.Err, broken)
				reports++
			}))
			err := j.Run(ctx, once.Every(10*time.Second), once.SkipMissed, func(_ context.Context, slot time.Time, _ *coord.Hold) error {
				d.note(slot)
				return broken
			})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, len(d.all()), reports)
			assert.Equal(t, []int64{10, 20}, slices.Compact(d.all()))
			if policy == once.AtMostOnce {
				assert.Len(t, d.all(), 2)
				forgets(t, s)
			} else {
				assert.GreaterOrEqual(t, len(d.all()), 6)
			}
		})
	}
}

// Whoever runs the first slot loses its session in the middle.
func TestTheOthersGoOnWhenAProcessDies(t *testing.T) {
	for policy, want := range map[once.Policy][]int64{
		once.AtMostOnce:  {1, 2, 3},
		once.AtLeastOnce: {1, 1, 2, 3},
	} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var d diary
			var die sync.Once
			var all sync.WaitGroup
			for range 2 {
				c := s.Client()
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
					defer cancel()
					err := once.New(c, "job", policy).Run(ctx, once.Every(time.Second), once.RunAll, func(ctx context.Context, slot time.Time, _ *coord.Hold) (err error) {
						d.note(slot)
						die.Do(func() {
							s.Expire(c)
							<-ctx.Done()
							err = context.Cause(ctx)
						})
						return err
					})
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				})
			}
			all.Wait()
			assert.Equal(t, want, d.all())
			forgets(t, s)
		})
	}
}

func TestRunGoesOnWhenTheServiceIsBack(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var d diary
		var out int
		c := s.Client()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		go func() {
			time.Sleep(15 * time.Second)
			heal := s.Partition(c)
			time.Sleep(30 * time.Second)
			heal()
		}()
		err := once.New(c, "job", once.AtMostOnce, once.MaxWait(5*time.Second), once.WithReport(func(e once.Event) {
			if errors.Is(e.Err, coord.ErrUnavailable) {
				out++
			}
		})).Run(ctx, once.Every(10*time.Second), once.SkipMissed, func(_ context.Context, slot time.Time, _ *coord.Hold) error {
			d.note(slot)
			return nil
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotZero(t, out)
		assert.Equal(t, int64(10), d.all()[0])
		assert.Contains(t, d.all(), int64(70))
		assert.Contains(t, d.all(), int64(110))
		forgets(t, s)
	})
}

type never struct{ at time.Time }

func (n never) Next(time.Time) time.Time { return n.at }

func TestWhatCannotBeRunIsRefused(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		fn := func(context.Context, time.Time, *coord.Hold) error { return nil }
		j := once.New(c, "job", once.AtMostOnce)
		ctx := t.Context()
		assert.ErrorIs(t, j.Run(ctx, nil, once.RunAll, fn), coord.ErrInvalid)
		assert.ErrorIs(t, j.Run(ctx, once.Every(time.Second), 0, fn), coord.ErrInvalid)
		assert.ErrorIs(t, j.Run(ctx, once.Every(time.Second), once.RunAll, nil), coord.ErrInvalid)
		assert.ErrorIs(t, j.Run(ctx, never{time.Now().Add(-time.Hour)}, once.SkipMissed, fn), coord.ErrInvalid)
		assert.ErrorIs(t, once.New(c, "", once.AtMostOnce).Run(ctx, once.Every(time.Second), once.RunAll, fn), coord.ErrInvalidName)
		assert.ErrorIs(t, once.New(c, "job", 0).Run(ctx, once.Every(time.Second), once.SkipMissed, fn), coord.ErrInvalid)
		ended, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		assert.ErrorIs(t, j.Run(ended, never{}, once.SkipMissed, fn), context.DeadlineExceeded, "no slot ever begins")
		c.Close()
		assert.ErrorIs(t, j.Run(ctx, once.Every(time.Second), once.SkipMissed, fn), coord.ErrClosed)
	})
}

func TestIntervalsAreCountedFromTheEpoch(t *testing.T) {
	for _, c := range []struct {
		after    string
		interval time.Duration
		want     string
	}{
		{"2026-01-01T10:00:00Z", time.Hour, "2026-01-01T11:00:00Z"},
		{"2026-01-01T10:59:59.999Z", time.Hour, "2026-01-01T11:00:00Z"},
		{"2026-01-01T10:00:00.0004Z", time.Millisecond, "2026-01-01T10:00:00.001Z"},
		{"1969-12-31T23:59:58.5Z", time.Second, "1969-12-31T23:59:59Z"},
		{"1969-12-31T23:59:59Z", time.Second, "1970-01-01T00:00:00Z"},
		{"2026-01-01T10:00:00Z", 0, "2026-01-01T10:00:00.001Z"},
	} {
		after, err := time.Parse(time.RFC3339Nano, c.after)
		require.NoError(t, err)
		assert.Equal(t, c.want, once.Every(c.interval).Next(after).UTC().Format(time.RFC3339Nano), "%v after %s", c.interval, c.after)
	}
}
