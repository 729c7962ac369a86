package deadlines_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

// ms is a thousandth of the timeouts here, so the numbers are thousandths of the timeout.
const ms = time.Millisecond

func at(n int) time.Duration { return time.Duration(n) * ms }

func link(sent, answered int, commit bool) deadlines.Link {
	return deadlines.Link{Sent: at(sent), Answered: at(answered), Commit: commit}
}

func TestThreeLinksMakeASessionSure(t *testing.T) {
	const commit, sync = true, false
	for _, c := range []struct {
		name  string
		links []deadlines.Link
		until int
	}{
		{"one", []deadlines.Link{link(1000, 1010, commit)}, 980},
		{"two with a gap", []deadlines.Link{link(1000, 1010, commit), link(1300, 1310, commit)}, 980},
		{"three", []deadlines.Link{link(1000, 1010, commit), link(1300, 1310, commit), link(1320, 1330, commit)}, 1980},
		{"three with a gap that is too short", []deadlines.Link{link(1000, 1010, commit), link(1280, 1290, commit), link(1300, 1310, commit)}, 980},
		{"three with the gap at the end", []deadlines.Link{link(1000, 1010, commit), link(1020, 1030, commit), link(1320, 1330, commit)}, 980},
		{"the third was under way already", []deadlines.Link{link(1000, 1010, commit), link(1300, 1310, commit), link(1305, 1330, commit)}, 980},
		{"the third was sent when the second was answered", []deadlines.Link{link(1000, 1010, commit), link(1300, 1310, commit), link(1310, 1330, commit)}, 980},
		{"the gap begins with the answer", []deadlines.Link{link(1000, 1200, commit), link(1300, 1310, commit), link(1320, 1330, commit)}, 980},
		{"four: the latest chain counts", []deadlines.Link{link(1000, 1010, commit), link(1140, 1150, commit), link(1290, 1300, commit),
			link(1430, 1440, commit), link(1570, 1580, commit)}, 1140 + 980},
		{"the last is a commit", []deadlines.Link{link(1000, 1010, sync), link(1300, 1310, sync), link(1320, 1330, commit)}, 1980},
		{"no commit among them", []deadlines.Link{link(900, 910, commit), link(1000, 1010, sync), link(1300, 1310, sync), link(1320, 1330, sync)}, 1880},
		{"no commit since the session was made", []deadlines.Link{link(1000, 1010, sync), link(1300, 1310, sync), link(1320, 1330, sync)}, 980},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l deadlines.Links
			l.Connected(1*ms, 1000*ms)
			var until time.Duration
			for _, x := range c.links {
				until = l.Answered(x)
			}
			if c.until == 980 {
				c.until++ // all that counts is the greeting, asked for at 1
			}
			assert.Equal(t, at(c.until), until)
		})
	}
}

func TestLinksDoNotSpanConnections(t *testing.T) {
	var l deadlines.Links
	l.Connected(1*ms, 1000*ms)
	l.Answered(link(10, 20, true))
	l.Answered(link(400, 410, true))
	assert.Equal(t, at(400+980), l.Connected(at(420), 1000*ms), "as far as a commit of before allows")
	assert.Equal(t, at(420+980), l.Answered(link(430, 440, true)), "the greeting counts, the links of before do not")
	assert.Equal(t, at(420+980), l.Answered(link(445, 450, true)))
}

func TestATimeoutThatWasCutCounts(t *testing.T) {
	var l deadlines.Links
	l.Connected(at(1), 1000*ms)
	assert.Equal(t, at(981), l.Answered(link(10, 20, true)))
	assert.Equal(t, at(10+490), l.Connected(at(100), 500*ms))
	assert.Equal(t, at(10+490), l.Connected(at(120), 1000*ms), "it does not grow again")
}

// drive sends what Next asks for, with that round trip, and returns the least that was left of the timeout just before an
// answer, and how many requests there were in a timeout.
func drive(l *deadlines.Links, from, rtt time.Duration, needed bool) (least time.Duration, links, commits float64) {
	now := from
	least = time.Hour
	for range 210 {
		due, commit := l.Next(needed)
		now = max(now, due)
		sent := now
		now += rtt
		until := l.Until()
		if sent > from+3000*ms {
			least = min(least, until-now)
			links++
			if commit {
				commits++
			}
		}
		l.Answered(deadlines.Link{Sent: sent, Answered: now, Commit: commit})
	}
	turns := float64(now-from-3000*ms) / float64(1000*ms)
	return least, links / turns, commits / turns
}

func TestNextKeepsEnoughOfTheTimeout(t *testing.T) {
	for _, rtt := range []time.Duration{ms / 10, ms, 10 * ms, 15 * ms, 20 * ms, 40 * ms, 100 * ms} {
		var l deadlines.Links
		l.Connected(ms, 1000*ms)
		least, links, commits := drive(&l, 2*ms, rtt, true)
		t.Logf("round trip %v: %v left, %.1f links in a timeout, %.1f of them commits", rtt, least, links, commits)
		assert.LessOrEqual(t, commits, 3.0)
		switch {
		case rtt <= 10*ms:
			assert.LessOrEqual(t, links, 7.2)
			assert.GreaterOrEqual(t, least, at(400))
		case rtt <= 20*ms:
			assert.LessOrEqual(t, links, 7.2)
			assert.GreaterOrEqual(t, least, at(360))
		default:
			assert.GreaterOrEqual(t, least, at(150))
		}
	}
}

func TestTheFirstLockOfAnIdleSessionIsSureAtOnce(t *testing.T) {
	for _, wait := range []time.Duration{ms, 100 * ms, 200 * ms, 280 * ms} {
		var l deadlines.Links
		l.Connected(ms, 1000*ms)
		_, links, commits := drive(&l, 2*ms, ms, false)
		assert.LessOrEqual(t, links, 3.6)
		assert.Zero(t, commits)
		assert.Equal(t, at(981), l.Until(), "without a commit a session is sure of nothing more")

		next, _ := l.Next(false)
		join := deadlines.Link{Sent: next - 279*ms + wait, Answered: next - 278*ms + wait, Commit: true}
		assert.GreaterOrEqual(t, l.Answered(join)-join.Answered, 400*ms)
	}
}

func TestABusySessionNeedsNoFurtherLinks(t *testing.T) {
	var l deadlines.Links
	l.Connected(ms, 1000*ms)
	for sent := 2 * ms; sent < 5000*ms; sent += ms {
		until := l.Answered(deadlines.Link{Sent: sent, Answered: sent + ms - 1, Commit: true})
		due, _ := l.Next(true)
		assert.Greater(t, due, sent+100*ms)
		if sent > 1000*ms {
			assert.Greater(t, until-sent, 670*ms)
		}
	}
}

// A session idles with a sync now and then. Then it joins a line.
func ExampleLinks() {
	const timeout = 10 * time.Second
	var l deadlines.Links
	l.Connected(1*time.Second, timeout)
	a := deadlines.Link{Sent: 20 * time.Second, Answered: 20*time.Second + ms}
	b := deadlines.Link{Sent: 23 * time.Second, Answered: 23*time.Second + ms}
	c := deadlines.Link{Sent: 24 * time.Second, Answered: 24*time.Second + ms, Commit: true}
	fmt.Println(l.Answered(a), l.Answered(b), l.Answered(c))
	due, commit := l.Next(true)
	fmt.Println("next at", due, "commit:", commit)
	// Output:
	// 10.8s 10.8s 29.8s
	// next at 25.701000001s commit: false
}
