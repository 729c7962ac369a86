package once

import "time"

// Schedule says when the slots of a job begin. What parsers of cron lines return is one, such as ParseStandard's of
// github.com/robfig/cron/v3. All processes should have the same, in the same time zone. Run refuses one that counts from the
// moment at which it is asked, such as robfig/cron's "@every 1h". A schedule by the time of a place has its own rules for the hour
// that is left out in spring and the one that comes twice in autumn; one in UTC needs none.
type Schedule interface {
	// Next returns when the first slot begins after a moment; the zero Time says that there is none.
	Next(after time.Time) time.Time
}

// Every returns a schedule with a slot in each interval. They are counted from the Unix epoch and not from the start of a
// process, so that all processes have the same. An interval is of whole milliseconds; Run refuses one of less than a millisecond.
func Every(interval time.Duration) Schedule { return every(interval) }

type every time.Duration

func (e every) Next(after time.Time) time.Time {
	ms := max(time.Duration(e).Milliseconds(), 1)
	n := after.UnixMilli() / ms
	if after.UnixMilli()%ms < 0 {
		n-- // before the epoch
	}
	return time.UnixMilli((n + 1) * ms)
}

func isTooShort(s Schedule) bool {
	e, ok := s.(every)
	return ok && time.Duration(e) < time.Millisecond
}

// drifts reports whether a schedule says something else when it is asked a little later.
func drifts(s Schedule, from time.Time) bool {
	at := s.Next(from)
	return !at.IsZero() && at.After(from) && !s.Next(later(from, at.Add(-time.Millisecond))).Equal(at)
}

// firstBetween returns when the first slot begins after the last one that was noted and before another one; zero: there is none.
func firstBetween(s Schedule, last Record, before time.Time) (first time.Time) {
	if last.Token != 0 {
		first = s.Next(time.UnixMilli(last.Slot))
	}
	if !first.Before(before) {
		return time.Time{}
	}
	return first
}

// slotOf returns the number of a slot that begins then.
func slotOf(at time.Time) int64 { return at.UnixMilli() }

// lastBegun returns the beginning of the last slot that has begun by now; from is that of an earlier one. It looks back from now,
// since there may be millions in between.
func lastBegun(s Schedule, from, now time.Time) time.Time {
	for back := time.Second; back > 0 && now.Add(-back).After(from); back *= 2 { // until it overflows
		if n := s.Next(now.Add(-back)); !n.IsZero() && !n.After(now) {
			from = n
			break
		}
	}
	for {
		n := s.Next(from)
		if n.IsZero() || n.After(now) || !n.After(from) {
			return from
		}
		from = n
	}
}
