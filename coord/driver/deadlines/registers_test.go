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
	assert.Equal(t, at(4000), deadlines.ByClocks(at(5000), at(1000), at(2000)))
	assert.Equal(t, at(4000), deadlines.ByClocks(at(5000), at(2000), at(1000)))
	assert.Equal(t, at(5000), deadlines.ByClocks(at(5000), at(2000), at(-1000)))

	assert.True(t, deadlines.Convict(at(1000), at(1000), at(375), 1000*ms))
	assert.False(t, deadlines.Convict(at(999), at(1000), at(375), 1000*ms))
	assert.False(t, deadlines.Convict(at(1000), at(999), at(375), 1000*ms))
	assert.False(t, deadlines.Convict(at(1000), at(1000), at(374), 1000*ms))
}

// The store's clock is 7 s ahead, then moves by step between the sample at 1500 and the one at 1750.
func samples(step int) *deadlines.Samples {
	s := deadlines.NewSamples(1000 * ms)
	for own := 1000; own <= 2000; own += 250 {
		store := own + 7000
		if own > 1500 {
			store += step
		}
		s.Add(deadlines.Sample{Sent: at(own), Answered: at(own + 1), Store: at(store)})
	}
	return s
}

func TestOwnSamplesTellWhenASessionWasRenewed(t *testing.T) {
	for _, c := range []struct {
		name         string
		step         int
		store, stamp int // what the store's clock says at 2100, and said at the renewal
		since        int
	}{
		{"before all samples", 0, 9100, 7500, 1001},
		{"between two", 0, 9100, 8400, 1501},
		{"just now", 0, 9100, 9050, 2101},
		{"the store's clock was set forward", 900, 10000, 8400, 1751},
		{"it was set back", -900, 8200, 7500, 1751},
		{"it was set forward just now", 0, 10000, 8400, 2101},
		{"it was set back just now", 0, 8200, 7500, 2101},
	} {
		look := deadlines.Sample{Sent: at(2100), Answered: at(2101), Store: at(c.store)}
		assert.Equal(t, at(c.since), samples(c.step).Renewed(look, at(c.stamp)), c.name)
	}
}

func TestSamplesThatTellLittleAreNotKept(t *testing.T) {
	s := deadlines.NewSamples(1000 * ms)
	s.Add(deadlines.Sample{Sent: at(1000), Answered: at(1001), Store: at(1000)})
	s.Add(deadlines.Sample{Sent: at(1250), Answered: at(1300), Store: at(1260)})
	look := deadlines.Sample{Sent: at(1400), Answered: at(1401), Store: at(1400)}
	assert.Equal(t, at(1401), s.Renewed(look, at(1100)), "one that took long")
	assert.Equal(t, at(1001), s.Renewed(look, at(900)))

	s.Add(deadlines.Sample{Sent: at(2000), Answered: at(2001), Store: at(2000)})
	look = deadlines.Sample{Sent: at(2100), Answered: at(2101), Store: at(2100)}
	assert.Equal(t, at(2001), s.Renewed(look, at(900)), "those before a long pause")
}

// A waiter that renews its own session each quarter of a second comes upon a session that stands still.
func ExampleSamples() {
	const ttl = time.Second
	s := deadlines.NewSamples(ttl)
	for own := 10 * time.Second; own < 12*time.Second; own += ttl / 4 {
		s.Add(deadlines.Sample{Sent: own, Answered: own + ms, Store: own + time.Hour})
	}
	look := deadlines.Sample{Sent: 12 * time.Second, Answered: 12*time.Second + ms, Store: 12*time.Second + time.Hour}
	since := s.Renewed(look, time.Hour+10900*ms)
	still := deadlines.Standstill{First: look.Answered, Since: since}
	fmt.Println("it was renewed at", since, "or before; it may be ended", still.Left(look.Answered, ttl), "from now")
	// Output:
	// it was renewed at 11.001s or before; it may be ended 375ms from now
}
