package once_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/once"
	"github.com/turnwise/turnwise/verify/bubble"
)

// A slot that fails while others that were missed wait behind it: at least once, all of them.
func TestNoSlotIsGivenUpIfAllAreRun(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var d diary
		note := func(slot time.Time) error { d.note(slot); return nil }
		runs(t, s, once.AtLeastOnce, once.RunAll, 2500*time.Millisecond, note)
		time.Sleep(5 * time.Second)
		fails := 2
		runs(t, s, once.AtLeastOnce, once.RunAll, 8*time.Second, func(slot time.Time) error {
			d.note(slot)
			if slot.Unix()-begun == 4 && fails > 0 {
				fails--
				return errors.New("broken")
			}
			return nil
		})
		assert.Equal(t, []int64{1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9}, d.all()[:11])
		forgets(t, s)
	})
}

// deaf writes a memo, and hears an answer of its own.
type deaf struct {
	driver.Driver
	answer func() error
}

type deafSession struct {
	driver.Session
	answer func() error
}

type deafPlace struct {
	driver.Place
	answer func() error
}

func (d deaf) Open(ctx context.Context) (driver.Session, error) {
	s, err := d.Driver.Open(ctx)
	if err != nil {
		return nil, err
	}
	return deafSession{s, d.answer}, nil
}

func (s deafSession) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	p, ahead, err := s.Session.Join(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	return deafPlace{p, s.answer}, ahead, nil
}

func (p deafPlace) Remember(ctx context.Context, memo []byte) error {
	if err := p.Place.Remember(ctx, memo); err != nil {
		return err
	}
	return p.answer()
}

// deafFor hears nothing, so many times.
func deafFor(times int) func() error {
	return func() error {
		if times--; times >= 0 {
			return errors.New("no answer")
		}
		return nil
	}
}

// runsTens runs the job at most once in slots of ten seconds for so long, and returns in which. failed is told of each that it could not
// run because of an error.
func runsTens(t *testing.T, c *coord.Client, d time.Duration, because error, failed func(e once.Event)) []int64 {
	t.Helper()
	var ran diary
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	j := once.New(c, "job", once.AtMostOnce, once.WithReport(func(e once.Event) {
		if errors.Is(e.Err, because) {
			assert.False(t, e.Ran)
			failed(e)
		}
	}))
	err := j.Run(ctx, once.Every(10*time.Second), once.SkipMissed, func(_ context.Context, slot time.Time, _ *coord.Hold) error {
		ran.note(slot)
		return nil
	})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	return ran.all()
}

// At most once, and the answer to the note is lost: the slot looks begun, and nobody has run it.
func TestASlotThatWasNotedWithoutAnAnswerIsRunByWhoNotedIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := coord.NewClient(deaf{s.Client().Driver(), deafFor(3)})
		defer c.Close()
		unsettled := 0
		ran := runsTens(t, c, 25*time.Second, coord.ErrUnsettled, func(once.Event) { unsettled++ })
		assert.Equal(t, []int64{10, 20}, ran)
		assert.Equal(t, 3, unsettled, "with growing pauses, two of them before 20")
		forgets(t, s)
	})
}

// Others take what was noted without an answer as settled, and when a later one was run it is settled for who noted it, too.
func TestASlotThatWasNotedWithoutAnAnswerIsNotRunAfterALaterOne(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := coord.NewClient(deaf{s.Client().Driver(), deafFor(1)})
		defer c.Close()
		other := once.New(s.Client(), "job", once.AtMostOnce)
		ran := runsTens(t, c, 15*time.Second, coord.ErrUnsettled, func(e once.Event) {
			assert.False(t, run(t, other, e.Slot.UnixMilli(), nothing))
			assert.True(t, run(t, other, e.Slot.UnixMilli()+1, nothing))
		})
		assert.Empty(t, ran)
		forgets(t, s)
	})
}

// At most once, and the hold is lost as the slot is noted: nothing has run, and nobody else will run it.
func TestASlotThatWasNotedAsTheHoldWasLostIsRunByWhoNotedIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		far := s.Client()
		expired := false
		c := coord.NewClient(deaf{far.Driver(), func() error {
			if !expired {
				expired = true
				s.Expire(far)
				synctest.Wait() // it knows
			}
			return nil
		}})
		defer c.Close()
		lost := 0
		ran := runsTens(t, c, 15*time.Second, coord.ErrLost, func(once.Event) { lost++ })
		assert.Equal(t, []int64{10}, ran)
		assert.Equal(t, 1, lost)
		forgets(t, s)
	})
}

// slow is long under way when it looks under the hold.
type slow struct {
	driver.Driver
	looks    int
	onTheWay func()
}

func (d *slow) Memo(ctx context.Context, line string) ([]byte, error) {
	memo, err := d.Driver.Memo(ctx, line)
	if d.looks++; d.looks == 2 {
		d.onTheWay()
	}
	return memo, err
}

// What it sees is old when it arrives: the hold has ended, and another one has run the slot.
func TestWhoIsLateWithItsLookRunsNothing(t *testing.T) {
	for _, policy := range []once.Policy{once.AtMostOnce, once.AtLeastOnce} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			far := s.Client()
			d := &slow{Driver: far.Driver()}
			c := coord.NewClient(d)
			defer c.Close()
			d.onTheWay = func() {
				s.Expire(far)
				assert.True(t, run(t, once.New(s.Client(), "job", policy), 7, nothing))
			}
			ran, err := once.New(c, "job", policy).Do(t.Context(), 7, nothing)
			assert.False(t, ran)
			assert.ErrorIs(t, err, coord.ErrLost)
			forgets(t, s)
		})
	}
}

// Somebody's clock was a year ahead, or somebody took nanoseconds for the number of a slot.
func TestASlotOfTheFutureIsToldToAllAndForgotten(t *testing.T) {
	for _, missed := range []once.Missed{once.SkipMissed, once.RunLast, once.RunAll} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			assert.True(t, run(t, once.New(s.Client(), "job", once.AtMostOnce), time.Now().AddDate(1, 0, 0).UnixMilli(), nothing))
			ahead := 0
			go func() {
				time.Sleep(3500 * time.Millisecond)
				assert.NoError(t, s.Client().Forget(t.Context(), "job"))
			}()
			var d diary
			runs(t, s, once.AtMostOnce, missed, 5500*time.Millisecond, func(slot time.Time) error {
				d.note(slot)
				return nil
			}, once.WithReport(func(e once.Event) {
				if e.Err != nil {
					assert.ErrorIs(t, e.Err, once.ErrAhead)
					assert.Contains(t, e.Err.Error(), "2001-01-01")
					ahead++
				}
			}))
			assert.Equal(t, 3, ahead)
			assert.Equal(t, []int64{4, 5}, d.all())
			forgets(t, s)
		})
	}
}

func TestWhatWasLeftOutIsTold(t *testing.T) {
	for missed, want := range map[once.Missed][]int64{once.SkipMissed: {3}, once.RunLast: {3}, once.RunAll: nil} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var skipped []int64
			told := once.WithReport(func(e once.Event) {
				if !e.Skipped.IsZero() {
					skipped = append(skipped, e.Skipped.Unix()-begun)
				}
			})
			runs(t, s, once.AtMostOnce, missed, 2500*time.Millisecond, func(time.Time) error { return nil })
			time.Sleep(5 * time.Second)
			runs(t, s, once.AtMostOnce, missed, 2*time.Second, func(time.Time) error { return nil }, told)
			assert.Equal(t, want, skipped)
			forgets(t, s)
		})
	}
	bubble.Run(t, func(t *testing.T, s *mem.Service) { // one was stopped while another one ran them: nothing was left out
		var all sync.WaitGroup
		all.Go(func() {
			runs(t, s, once.AtMostOnce, once.RunLast, 20*time.Second, func(time.Time) error { return nil })
		})
		stopped := false
		runs(t, s, once.AtMostOnce, once.RunLast, 20*time.Second, func(time.Time) error { return nil },
			once.WithClock(func() time.Time {
				if now := time.Now(); now.Unix()-begun == 5 && !stopped {
					stopped = true
					time.Sleep(4 * time.Second)
				}
				return time.Now()
			}),
			once.WithReport(func(e once.Event) { assert.Zero(t, e.Skipped) }))
		all.Wait()
		assert.True(t, stopped)
		forgets(t, s)
	})
}

// delay is a schedule as robfig/cron's ConstantDelaySchedule, which "@every 5s" is.
type delay time.Duration

func (d delay) Next(t time.Time) time.Time {
	return t.Add(time.Duration(d) - time.Duration(t.Nanosecond()))
}

func TestASchedulePerProcessIsRefused(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		fn := func(context.Context, time.Time, *coord.Hold) error { return nil }
		j := once.New(s.Client(), "job", once.AtMostOnce)
		for _, d := range []time.Duration{1, 300 * time.Millisecond, 700 * time.Millisecond} {
			time.Sleep(d)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			for _, wrong := range []once.Schedule{delay(2 * time.Second), delay(time.Hour), once.Every(0), once.Every(-time.Second), once.Every(time.Microsecond)} {
				assert.ErrorIs(t, j.Run(ctx, wrong, once.SkipMissed, fn), coord.ErrInvalid, "%v", wrong)
			}
		}
	})
}

// The clock is set back by an hour while a slot is to be tried again: the tries go on.
func TestAClockThatIsSetBack(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		var d diary
		tries := 0
		j := once.New(s.Client(), "job", once.AtLeastOnce, once.WithClock(func() time.Time {
			if time.Since(start) > 20200*time.Millisecond {
				return time.Now().Add(-time.Hour)
			}
			return time.Now()
		}))
		err := j.Run(ctx, once.Every(10*time.Second), once.SkipMissed, func(_ context.Context, slot time.Time, _ *coord.Hold) error {
			if tries++; tries == 2 {
				return errors.New("broken")
			}
			d.note(slot)
			return nil
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []int64{10, 20}, d.all())
		forgets(t, s)
	})
}

// A clock that jumps ahead runs a slot early, and puts the others out of nothing but that.
func TestAClockThatJumpsAheadAndIsPutRight(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var d diary
		note := func(slot time.Time) error { d.note(slot); return nil }
		var all sync.WaitGroup
		all.Go(func() { runs(t, s, once.AtMostOnce, once.RunLast, 9500*time.Millisecond, note) })
		start := time.Now()
		all.Go(func() {
			runs(t, s, once.AtMostOnce, once.RunLast, 9500*time.Millisecond, note, once.WithClock(func() time.Time {
				if s := time.Since(start).Seconds(); s > 2.9 && s < 4.2 {
					return time.Now().Add(3 * time.Second)
				}
				return time.Now()
			}))
		})
		all.Wait()
		slots := d.all()
		for i, slot := range slots[1:] {
			assert.Less(t, slots[i], slot, "slots only grow: %v", slots)
		}
		assert.Contains(t, slots, int64(8))
		assert.Contains(t, slots, int64(9))
		forgets(t, s)
	})
}

func TestWhoseContextHasEndedReportsNoTrouble(t *testing.T) {
	for _, missed := range []once.Missed{once.SkipMissed, once.RunLast, once.RunAll} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			j := once.New(s.Client(), "job", once.AtMostOnce, once.WithReport(func(e once.Event) { t.Errorf("%+v", e) }))
			err := j.Run(ctx, once.Every(time.Second), missed, func(context.Context, time.Time, *coord.Hold) error { return nil })
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
}

func TestAHoldOfAnotherLineBeginsNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h, err := mutex.New(s.Client(), "other").Lock(t.Context())
		require.NoError(t, err)
		_, err = once.New(s.Client(), "job", once.AtMostOnce).Begin(t.Context(), 1, h)
		assert.ErrorIs(t, err, coord.ErrInvalid)
		require.NoError(t, h.Release())
	})
}

// seldom has a slot each thousand years.
type seldom struct{}

func (seldom) Next(after time.Time) time.Time {
	at := time.Date(-100400, 1, 1, 0, 0, 0, 0, time.UTC)
	for !at.After(after) {
		at = at.AddDate(1000, 0, 0)
	}
	if at.Before(time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)) {
		at = time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return at
}

// Whoever numbered slots in some other way may have left the number of a year long ago.
func TestASlotOfLongAgo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for _, slot := range []int64{-1 << 60, -1e14, 1, 20261126} {
			require.True(t, run(t, once.New(s.Client(), "job", once.AtMostOnce), slot, nothing))
			var d diary
			runs(t, s, once.AtMostOnce, once.RunLast, 1500*time.Millisecond, func(slot time.Time) error {
				d.note(slot)
				return nil
			})
			assert.Len(t, d.all(), 2, "slot %d", slot)
			forgets(t, s)
			time.Sleep(500 * time.Millisecond) // the next one begins with a slot, too
		}
		require.True(t, run(t, once.New(s.Client(), "job", once.AtMostOnce), -1<<60, nothing))
		ctx, cancel := context.WithCancel(t.Context())
		err := once.New(s.Client(), "job", once.AtMostOnce).Run(ctx, seldom{}, once.RunLast, func(_ context.Context, slot time.Time, _ *coord.Hold) error {
			assert.Equal(t, 1600, slot.Year())
			cancel()
			return nil
		})
		assert.ErrorIs(t, err, context.Canceled)
		forgets(t, s)
	})
}

// ShedLock's known case: the job is shorter than the clocks are apart, and the lock is free again when the second machine's timer
// goes off. lockAtLeastFor has to be longer than that; here nothing has to be known of it.
func TestAJobShorterThanTheClocksAreApart(t *testing.T) {
	for _, policy := range []once.Policy{once.AtMostOnce, once.AtLeastOnce} {
		bubble.Run(t, func(t *testing.T, s *mem.Service) {
			var d diary
			var all sync.WaitGroup
			time.Sleep(500 * time.Millisecond) // all clocks show the same second
			for i := range 5 {
				ahead := time.Duration(i-2) * 200 * time.Millisecond
				all.Go(func() {
					runs(t, s, policy, once.SkipMissed, 10*time.Second, func(slot time.Time) error {
						d.note(slot)
						return nil
					}, once.WithClock(func() time.Time { return time.Now().Add(ahead) }), once.WithReport(func(e once.Event) { assert.NoError(t, e.Err) }))
				})
			}
			all.Wait()
			assert.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, d.all())
			forgets(t, s)
		})
	}
}

// The memo of another line may be another recipe's.
func TestASlotIsNotedUnderNoOtherHold(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		j := once.New(c, "job", once.AtMostOnce)
		_, err := j.Begin(t.Context(), 1, nil)
		require.ErrorIs(t, err, coord.ErrInvalid)
		require.ErrorIs(t, j.End(t.Context(), 1, nil), coord.ErrInvalid)
		h, err := mutex.New(c, "other").Lock(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, j.End(t.Context(), 1, h), coord.ErrInvalid)
		memo, err := h.Memo(t.Context())
		require.NoError(t, err)
		require.Empty(t, memo)
		require.NoError(t, h.Release())
	})
}
