package deadlines_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

func TestASessionMustStandStillBeforeOurEyes(t *testing.T) {
	for _, c := range []struct {
		name                 string
		first, since, looked int
		left                 int
	}{
		{"just seen, just renewed", 5000, 5000, 5000, 1000},
		{"just seen, renewed long ago", 5000, 1000, 5000, 375},
		{"seen for long enough, renewed long ago", 5000, 1000, 5375, 0},
		{"seen for long enough, renewed lately", 5000, 4900, 5375, 525},
		{"seen all the time", 5000, 5000, 6000, 0},
	} {
		s := deadlines.Standstill{First: at(c.first), Since: at(c.since)}
		assert.Equal(t, at(c.left), s.Left(at(c.looked), 1000*ms), c.name)
	}
}

func TestBothClocksMustAgree(t *testing.T) {
	assert.True(t, deadlines.Convict(at(1000), at(1000), at(375), 1000*ms))
	assert.False(t, deadlines.Convict(at(999), at(1000), at(375), 1000*ms))
	assert.False(t, deadlines.Convict(at(1000), at(999), at(375), 1000*ms))
	assert.False(t, deadlines.Convict(at(1000), at(1000), at(374), 1000*ms))
}

const ttl = time.Second

// The store's clock is 7 s ahead, then moves by step between the sample at 1500 and the one at 1750.
func samples(step int) *deadlines.Samples {
	s := new(deadlines.Samples)
	for own := 1000; own <= 2000; own += 250 {
		store := own + 7000
		if own > 1500 {
			store += step
		}
		s.Add(deadlines.Sample{Sent: at(own), Answered: at(own), Store: at(store)}, 2*ttl)
	}
	return s
}

func TestOwnSamplesTellWhenASessionWasRenewed(t *testing.T) {
	const most = 5 * 1100 * ms / 100 // of what the samples cannot tell
	for _, c := range []struct {
		name         string
		step         int
		store, stamp int // what the store's clock says at 2100, and said at the renewal
		since        int
	}{
		{"before all samples", 0, 9100, 7500, 1000},
		{"between two", 0, 9100, 8400, 1500},
		{"just now", 0, 9100, 9050, 2100},
		{"the store's clock was set forward", 900, 10000, 8400, 1750},
		{"it was set back", -900, 8200, 7500, 1750},
		{"it was set forward just now", 0, 10000, 8400, 2100},
		{"it was set back just now", 0, 8200, 7500, 2100},
	} {
		look := deadlines.Sample{Sent: at(2100), Answered: at(2100), Store: at(c.store)}
		since := samples(c.step).Renewed(look, at(c.stamp), ttl)
		assert.GreaterOrEqual(t, since, at(c.since), c.name)
		assert.LessOrEqual(t, since, at(c.since)+most, c.name)
	}
}

func TestWhatSamplesCannotTellCountsAgainstThem(t *testing.T) {
	slow := new(deadlines.Samples)
	slow.Add(deadlines.Sample{Sent: at(1000), Answered: at(1200), Store: at(1100)}, 2*ttl)
	look := deadlines.Sample{Sent: at(1400), Answered: at(1401), Store: at(1400)}
	assert.Equal(t, at(1401), slow.Renewed(look, at(900), ttl), "an answer that took long")

	apart := new(deadlines.Samples)
	apart.Add(deadlines.Sample{Sent: at(1000), Answered: at(1001), Store: at(1000)}, 2*ttl)
	look = deadlines.Sample{Sent: at(1600), Answered: at(1601), Store: at(1600)}
	assert.Equal(t, at(1601), apart.Renewed(look, at(900), ttl), "a long pause")
	assert.Less(t, apart.Renewed(look, at(900), 2*ttl), at(1100), "which is not long for a longer TTL")

	assert.Equal(t, at(2101), new(deadlines.Samples).Renewed(deadlines.Sample{Sent: at(2100), Answered: at(2101)}, 0, ttl), "no samples")
}

// A clock that is set back a little between any two samples, by so little that none of them tells.
func TestAClockThatCreepsBackIsNotBelieved(t *testing.T) {
	for slow := range 12 { // in ms, of a quarter of a second
		s := new(deadlines.Samples)
		store := func(own int) time.Duration { return at(100_000 + own - own*slow/250) }
		for own := 10_000; own <= 12_000; own += 250 {
			s.Add(deadlines.Sample{Sent: at(own), Answered: at(own + 2), Store: store(own + 1)}, 2*ttl)
		}
		for renewed := 11_000; renewed <= 12_100; renewed += 50 {
			look := deadlines.Sample{Sent: at(12_150), Answered: at(12_151), Store: store(12_150)}
			assert.GreaterOrEqual(t, s.Renewed(look, store(renewed), ttl), at(renewed), "renewed at %d", renewed)
		}
	}
}

// A waiter that renews its own session each quarter of a second comes upon a session that stands still.
func ExampleSamples() {
	const ttl = time.Second
	var s deadlines.Samples
	for own := 10 * time.Second; own < 12*time.Second; own += ttl / 4 {
		s.Add(deadlines.Sample{Sent: own, Answered: own + ms, Store: own + time.Hour}, 2*ttl)
	}
	look := deadlines.Sample{Sent: 12 * time.Second, Answered: 12*time.Second + ms, Store: 12*time.Second + time.Hour}
	since := s.Renewed(look, time.Hour+10900*ms, ttl)
	still := deadlines.Standstill{First: look.Answered, Since: since}
	fmt.Println("it was renewed at", since.Round(10*ms), "or before; it may be ended", still.Left(look.Answered, ttl), "from now")
	// Output:
	// it was renewed at 11.06s or before; it may be ended 375ms from now
}
