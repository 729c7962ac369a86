//go:build !race

package timed

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/verify/model/walk"
)

func limit() int {
	if os.Getenv("TURNWISE_LONG") != "" {
		return 30_000_000
	}
	return 600_000
}

// walked fails if two hold, and in long runs also if there are states that were not walked through.
func walked(t *testing.T, search func(limit int) (walk.Result, bool)) {
	t.Helper()
	began := time.Now()
	r, whole := search(limit())
	t.Logf("%d states in %.1fs, to the end: %v", r.States, time.Since(began).Seconds(), whole)
	if r.Fault != "" {
		t.Fatalf("%s\n%s", r.Fault, schedule(r.Trace))
	}
	if !whole && os.Getenv("TURNWISE_LONG") != "" {
		t.Error("not walked to the end")
	}
}

// found fails if two never hold.
func found(t *testing.T, search func(limit int) (walk.Result, bool)) {
	t.Helper()
	began := time.Now()
	r, _ := search(8_000_000)
	if r.Fault == "" {
		t.Fatalf("not found in %d states, %.1fs", r.States, time.Since(began).Seconds())
	}
	t.Logf("after %d states, %.1fs: %s\n%s", r.States, time.Since(began).Seconds(), r.Fault, schedule(r.Trace))
}

// schedule prints the steps of each tick in a line.
func schedule(trace []string) string {
	var b strings.Builder
	for i, step := range trace {
		switch {
		case step == "tick":
			b.WriteString("\n ")
		case i == 0 || trace[i-1] == "tick":
			b.WriteString("  " + step)
		default:
			b.WriteString("; " + step)
		}
	}
	return b.String()
}

func (z ZooKeeper) with(change func(z *ZooKeeper)) ZooKeeper {
	change(&z)
	return z
}

// eight is an ensemble with the shortest sessions that it allows by itself: a timeout of two of its ticks, which are four of
// ours.
var eight = ZooKeeper{Timeout: 8, Ping: 2, UnderWay: 1, Queue: 6, Rule: Links{}}

// four is as eight is, with coarser ticks, so that more can happen in it.
var four = ZooKeeper{Timeout: 4, Ping: 1, UnderWay: 1, Queue: 6, Rule: Links{}}

func TestThreeLinksOnZooKeeper(t *testing.T) {
	for _, c := range []struct {
		name string
		z    ZooKeeper
	}{
		{"links stall", eight},
		{"others lead, the client connects again", eight.with(func(z *ZooKeeper) { z.Leaders, z.Reconnects = true, true })},
		{"two requests under way", eight.with(func(z *ZooKeeper) { z.UnderWay = 2 })},
		{"a ping each tick", eight.with(func(z *ZooKeeper) { z.Ping, z.Queue = 1, 9 })},
		{"finer ticks", eight.with(func(z *ZooKeeper) { z.Timeout, z.Ping = 10, 2 })},
		{"the client's link is slow", four.with(func(z *ZooKeeper) { z.Far, z.Leaders, z.Reconnects, z.Pings = true, true, true, true })},
		{"syncs", four.with(func(z *ZooKeeper) { z.Syncs, z.Leaders, z.Reconnects = true, true, true })},
		{"a majority agrees late", four.with(func(z *ZooKeeper) { z.Agreement, z.Syncs, z.Leaders, z.Reconnects = true, true, true, true })},
		{"two under way, and a slow link", four.with(func(z *ZooKeeper) { z.UnderWay, z.Far, z.Syncs, z.Queue = 2, true, true, 5 })},
		{"the client's server leads", four.with(func(z *ZooKeeper) {
			z.AtLeader, z.Far, z.Syncs, z.Leaders, z.Reconnects, z.Agreement, z.Freezes, z.UnderWay = true, true, true, true, true, true, true, 2
		})},
	} {
		t.Run(c.name, func(t *testing.T) { walked(t, c.z.Search) })
	}
}

// What three links do not survive; the documentation says so.
func TestWhatThreeLinksDoNotCover(t *testing.T) {
	t.Run("the leader stops for a gap, and is slow to ping", func(t *testing.T) {
		found(t, eight.with(func(z *ZooKeeper) { z.Freezes = true }).Search)
	})
	t.Run("the server loses a touch", func(t *testing.T) {
		found(t, eight.with(func(z *ZooKeeper) { z.LostTouches = true }).Search)
	})
}

func TestTheOldRuleOfZooKeeperIsFound(t *testing.T) {
	ten := ZooKeeper{Timeout: 10, Ping: 1, UnderWay: 1, Queue: 10, Pings: true, Rule: hearsay{}}
	found(t, ten.Search)
}

func TestPlantedRulesOfZooKeeperAreFound(t *testing.T) {
	three := []int{3, 0}
	plain := func(r chain) ZooKeeper { return eight.with(func(z *ZooKeeper) { z.Rule = r }) }
	short := func(r chain, change func(z *ZooKeeper)) ZooKeeper {
		return four.with(func(z *ZooKeeper) { z.Rule = r; change(z) })
	}
	for _, p := range []struct {
		name string
		z    ZooKeeper
	}{
		{"a commit alone", plain(chain{})},
		{"two links", plain(chain{gaps: []int{0}})},
		{"two links with a gap", plain(chain{gaps: []int{3}})},
		{"three links without a gap", plain(chain{gaps: []int{0, 0}})},
		{"the gap before the last", plain(chain{gaps: []int{0, 3}})},
		{"a gap no longer than from ping to ping", plain(chain{gaps: []int{2, 0}})},
		{"counts from the second link", plain(chain{gaps: three, second: true})},
		{"counts from the first link's answer", plain(chain{gaps: three, answers: true})},
		{"the last was under way already", plain(chain{gaps: three, together: true}).with(func(z *ZooKeeper) { z.UnderWay = 2 })},
		{"syncs need no commit", short(chain{gaps: []int{2, 0}, noCommit: true}, func(z *ZooKeeper) { z.Syncs, z.Leaders = true, true })},
		{"a connection needs no commit", short(chain{deaf: true, noCommit: true}, func(z *ZooKeeper) { z.Leaders, z.Reconnects = true, true })},
		{"pings are links", short(chain{gaps: []int{2, 0}, pings: true}, func(z *ZooKeeper) { z.Pings = true })},
	} {
		t.Run(p.name, func(t *testing.T) { found(t, p.z.Search) })
	}
	t.Run("three links with nothing left out are not found", func(t *testing.T) { walked(t, plain(chain{gaps: three}).Search) })
}
