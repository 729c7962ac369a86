//go:build !race

package timed

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

const registerTTL = 4 * time.Second

// schedules calls f with registers whose store's clock is set by steps, and whose holder's walls differ by those, until f
// returns false. It returns how many there were. The store's clock may also be slowed down or sped up.
func schedules(steps, walls []time.Duration, f func(r *Register) bool) (n int) {
	const t = registerTTL
	rates, stores := []float64{0.99, 1, 1.01}, []float64{0.97, 1, 1.03}
	r := Register{TTL: t, Up: -2 * t, Holder: 0.99} // a slow clock believes for longest
	for r.Taken = 0; r.Taken <= t/2; r.Taken += t / 8 {
		for r.Looked = r.Taken; r.Looked <= 3*t/2; r.Looked += t / 12 {
			for _, by := range steps {
				for _, again := range []time.Duration{0, by, -by} {
					for _, at := range []time.Duration{0, r.Taken - t/200, (r.Taken + r.Looked) / 2, r.Looked - t/8} {
						// A clock that is set, and set back before the next sample, is what the rule cannot find out.
						r.Steps = [2]Step{{by, at}, {again, at + 5*t/16}}
						for _, r.Walls = range walls {
							for k := range 9 {
								r.Watcher, r.Store = rates[k%3], stores[k/3]
								for _, r.Phase = range []time.Duration{0, t / 8, t / 10} {
									for i, trip := range []time.Duration{0, t / 50, t / 50, t / 10} {
										r.Trip, r.Early = trip, i > 1
										if n++; !f(&r) {
											return n
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
	return n
}

// setBy are steps of a clock: up to twice the TTL either way, and some that are hard to notice.
func setBy() []time.Duration {
	all := []time.Duration{0}
	for i := time.Duration(1); i <= 8; i++ {
		all = append(all, i*registerTTL/4, -i*registerTTL/4)
	}
	for _, i := range []time.Duration{1, 3, 6, 10, 20, 36} {
		all = append(all, i*registerTTL/200, -i*registerTTL/200)
	}
	return all
}

// twoHold reports whether two hold in any schedule.
func twoHold(t *testing.T, steps, walls []time.Duration, ends func(r *Register) time.Duration) (found bool) {
	t.Helper()
	n := schedules(steps, walls, func(r *Register) bool {
		both := r.Believes() - ends(r)
		if found = both > 0; found {
			t.Logf("two hold for %v of %v: %+v", both, r.TTL, *r)
		}
		return !found
	})
	t.Logf("%d schedules", n)
	return found
}

func waits(rule WaitRule) func(*Register) time.Duration {
	return func(r *Register) time.Duration { return r.Ends(rule) }
}

var noSteps = []time.Duration{0}

func TestWhoWaitsAtAStoreIsNeverFooledByItsClock(t *testing.T) {
	if twoHold(t, setBy(), noSteps, waits(ShippedWait)) {
		t.Error("two hold")
	}
}

// A process that renews has samples that reach back, and then waits no longer than it has to.
func TestWhoHasSamplesWaitsForLess(t *testing.T) {
	r := Register{TTL: registerTTL, Looked: registerTTL, Up: -2 * registerTTL, Watcher: 1, Store: 1, Holder: 1}
	if wait := r.Ends(ShippedWait) - r.Looked; wait > registerTTL/2 {
		t.Errorf("it waits for %v", wait)
	}
	r.Up = r.Looked
	if wait := r.Ends(ShippedWait) - r.Looked; wait < registerTTL {
		t.Errorf("without samples it waits for %v only", wait)
	}
}

// clocks was the rule until it was found that two can hold by it: whichever of the store's clock and the wall clocks says less.
func clocks(r *Register, look deadlines.Sample, _ []deadlines.Sample) time.Duration {
	store, walls := r.store(r.Looked)-r.store(r.Taken), r.own(r.Looked)+r.Walls
	return look.Answered - max(min(store, walls), 0)
}

func TestTheOldRuleOfStoresIsFound(t *testing.T) {
	steps := []time.Duration{0, registerTTL, 2 * registerTTL}
	if !twoHold(t, steps, steps, waits(clocks)) {
		t.Error("it is not found")
	}
	t.Run("except where one of the clocks is right", func(t *testing.T) {
		if twoHold(t, steps, noSteps, waits(clocks)) || twoHold(t, noSteps, steps, waits(clocks)) {
			t.Error("two hold")
		}
	})
}

func TestPlantedRulesOfStoresAreFound(t *testing.T) {
	for name, rule := range map[string]WaitRule{
		"the store's clock alone": func(r *Register, look deadlines.Sample, _ []deadlines.Sample) time.Duration {
			return look.Answered - (r.store(r.Looked) - r.store(r.Taken))
		},
		"samples are not compared": func(r *Register, look deadlines.Sample, before []deadlines.Sample) time.Duration {
			return earliest(r, look, before, func(was, next deadlines.Sample) bool { return true })
		},
		"what samples cannot tell does not count": func(r *Register, look deadlines.Sample, before []deadlines.Sample) time.Duration {
			return earliest(r, look, before, func(was, next deadlines.Sample) bool {
				most, moved := next.Answered-was.Sent, next.Store-was.Store
				return moved >= next.Sent-was.Answered-most*3/100 && moved <= most+most*3/100
			})
		},
		"the renewal may be newer than the sample": func(r *Register, look deadlines.Sample, before []deadlines.Sample) time.Duration {
			for i := range before {
				before[i].Store += r.TTL / 4
			}
			look.Store += r.TTL / 4
			return ShippedWait(r, look, before)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !twoHold(t, setBy(), noSteps, waits(rule)) {
				t.Error("it is not found")
			}
		})
	}
}

// earliest returns when the earliest sample was answered that was taken after the renewal, as far as samples agree.
func earliest(r *Register, look deadlines.Sample, before []deadlines.Sample, agree func(was, next deadlines.Sample) bool) time.Duration {
	since, next := look.Answered, look
	for i := len(before) - 1; i >= 0 && agree(before[i], next) && before[i].Store > r.store(r.Taken); i-- {
		since, next = min(since, before[i].Answered), before[i]
	}
	return since
}

// Who does not wait has clocks alone to go by.
func TestWhoTriesAtAStoreNeedsOneClockThatIsRight(t *testing.T) {
	steps := []time.Duration{0, -registerTTL, registerTTL / 2, registerTTL, 2 * registerTTL}
	tries := func(r *Register) time.Duration { return r.Tries(0) }
	if twoHold(t, steps, noSteps, tries) || twoHold(t, noSteps, steps, tries) {
		t.Error("two hold")
	}
	t.Run("or two hold", func(t *testing.T) {
		if !twoHold(t, steps, steps, tries) {
			t.Error("it is not found, and the documentation says so")
		}
	})
}
