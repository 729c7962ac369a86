package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/trace"
	"github.com/turnwise/turnwise/recipes/group"
)

const ms = time.Millisecond

// stamped returns a truth with a stamp at every position from 1 to 100, sent that many milliseconds after the start.
func stamped(nodes ...*standing) *truth {
	t := &truth{nodes: nodes}
	for i := range int64(100) {
		t.stamps = append(t.stamps, stamp{i + 1, time.Duration(i+1) * ms})
		t.acks = append(t.acks, stamp{i + 1, time.Duration(i+1)*ms + ms/2})
	}
	return t
}

func hold(worker int, node string, from, to time.Duration) *attempt {
	return &attempt{worker: worker, line: "l", kind: "lock", node: node, wanted: from, granted: from, believed: to, ended: to, outcome: released}
}

func node(name string, born, gone int64) *standing {
	return &standing{line: "l", node: name, kind: "lock", born: born, order: [2]int64{born}, gone: gone}
}

func TestOneAfterTheOtherIsFine(t *testing.T) {
	v := judge(&evidence{truth: stamped(node("a", 1, 20), node("b", 2, 40)),
		attempts: []*attempt{hold(1, "a", 5*ms, 19*ms), hold(2, "b", 21*ms, 39*ms)}})
	require.Empty(t, v.overlaps)
	require.Empty(t, v.beliefs)
	require.Empty(t, v.stuck)
	require.Empty(t, v.left)
	require.Equal(t, 2, v.granted["l"])
}

func TestAGrantBeforeTheNodeAheadIsGoneIsAnOverlapAtTheServer(t *testing.T) {
	v := judge(&evidence{truth: stamped(node("a", 1, 30), node("b", 2, 40)),
		attempts: []*attempt{hold(1, "a", 5*ms, 10*ms), hold(2, "b", 21*ms, 39*ms)}})
	require.Len(t, v.overlaps, 1)
	require.Empty(t, v.beliefs)
}

func TestAGrantOfANodeThatNeverWasIsNoted(t *testing.T) {
	v := judge(&evidence{truth: stamped(), attempts: []*attempt{hold(1, "a", 5*ms, 10*ms)}})
	require.Len(t, v.overlaps, 1)
}

func TestASlotThatIsRunTwiceIsAFlaw(t *testing.T) {
	first, second := hold(1, "a", 5*ms, 19*ms), hold(2, "b", 21*ms, 39*ms)
	e := &evidence{truth: stamped(node("a", 1, 20), node("b", 2, 40)), attempts: []*attempt{first, second}}
	first.slot, second.slot = 7, 8
	require.Empty(t, judge(e).failures(nil))
	second.slot = 7
	require.Len(t, judge(e).failures(nil), 1)
	e.forgot = true // what was run, too
	require.Empty(t, judge(e).failures(nil))
}

func TestReadersMayBeTogetherAndAWriterMayNot(t *testing.T) {
	a, b, c := node("a", 1, 30), node("b", 2, 40), node("c", 3, 0)
	a.kind, b.kind, c.kind = "R", "R", "W"
	x, y, z := hold(1, "a", 5*ms, 29*ms), hold(2, "b", 6*ms, 39*ms), hold(3, "c", 35*ms, 50*ms)
	x.kind, y.kind, z.kind = "R", "R", "W"
	v := judge(&evidence{truth: stamped(a, b, c), attempts: []*attempt{x, y, z}})
	require.Len(t, v.overlaps, 1)
	require.Len(t, v.beliefs, 1)
	require.Len(t, v.left, 1)
}

func TestAWriterThatBecameAReaderLetsReadersIn(t *testing.T) {
	a, b := node("a", 1, 30), node("b", 2, 40)
	a.kind, b.kind, a.softened = "W", "R", 10
	x, y := hold(1, "a", 5*ms, 29*ms), hold(2, "b", 12*ms, 39*ms)
	x.kind, y.kind, x.softened = "W", "R", 11*ms
	v := judge(&evidence{truth: stamped(a, b), attempts: []*attempt{x, y}})
	require.Empty(t, v.overlaps)
	require.Empty(t, v.beliefs)
}

func TestAWriterIsNotInTheWayOfTheReaderThatItBecomes(t *testing.T) {
	a, b := node("a-W", 1, 10), node("a-R", 10, 30)
	a.kind, b.kind, b.order = "W", "R", a.order
	x := hold(1, "a-W", 5*ms, 29*ms)
	x.kind, x.softened = "W", 11*ms
	require.Empty(t, judge(&evidence{truth: stamped(a, b), attempts: []*attempt{x}}).overlaps)
}

func TestTooManyPermitsAreNoted(t *testing.T) {
	a, b := node("a", 1, 30), node("b", 2, 40)
	a.kind, b.kind = "S2of3", "S2of3"
	x, y := hold(1, "a", 5*ms, 29*ms), hold(2, "b", 12*ms, 39*ms)
	x.kind, y.kind = "S2of3", "S2of3"
	v := judge(&evidence{truth: stamped(a, b), attempts: []*attempt{x, y}})
	require.Len(t, v.overlaps, 1)
	require.Len(t, v.beliefs, 1)
}

func TestTwoWhoBelieveAreNotedWithTheCause(t *testing.T) {
	e := &evidence{truth: stamped(node("a", 1, 20), node("b", 2, 40)),
		attempts: []*attempt{hold(1, "a", 5*ms, 29*ms), hold(2, "b", 21*ms, 39*ms)}}
	v := judge(e)
	require.Empty(t, v.overlaps, "at the server one went before the other came")
	require.Len(t, v.beliefs, 1)
	require.Empty(t, v.beliefs[0].cause)
	require.Equal(t, 8*ms, v.beliefs[0].lasts)

	e.pauses = []pause{{worker: 1, from: 8 * ms, to: 28 * ms}}
	require.Equal(t, paused, judge(e).beliefs[0].cause)
	e.pauses[0].worker = 2
	require.Empty(t, judge(e).beliefs[0].cause)
}

// One whose node the service has taken away by mistake while he waited, and who has not heard of it, is granted after the one behind
// him. It is he who should have ended.
func TestOneWhoIsGrantedTooLateHasTheCause(t *testing.T) {
	x, y := hold(1, "b", 21*ms, 39*ms), hold(2, "a", 25*ms, 0)
	y.outcome = lost
	e := &evidence{truth: stamped(node("a", 1, 20), node("b", 2, 40)), attempts: []*attempt{x, y}}
	require.Len(t, judge(e).beliefs, 1)
	require.Empty(t, judge(e).beliefs[0].cause)

	e.pauses = []pause{{worker: 2, from: 18 * ms, to: 24 * ms}}
	require.Equal(t, paused, judge(e).beliefs[0].cause)
	e.pauses[0].worker = 1
	require.Empty(t, judge(e).beliefs[0].cause, "who entered in time has no need of a cause")

	e.frozen = []pause{{from: 5 * ms, to: 15 * ms}}
	require.Equal(t, revoked, judge(e).beliefs[0].cause)
	y.outcome = released
	require.Empty(t, judge(e).beliefs[0].cause)
}

func TestAWriteWithAnOlderTokenIsNoted(t *testing.T) {
	v := judge(&evidence{truth: stamped(), writes: []write{
		{line: "l", token: 5, accepted: true}, {line: "l", token: 4}, {line: "m", token: 1, accepted: true},
	}})
	require.Empty(t, v.stale)
	require.Equal(t, 1, v.refused["l"])
	v = judge(&evidence{truth: stamped(), writes: []write{
		{line: "l", token: 5, accepted: true}, {line: "l", token: 4, accepted: true},
	}})
	require.Len(t, v.stale, 1)
}

func TestOneWhoStillWaitsIsStuckUnlessItWasKilled(t *testing.T) {
	e := &evidence{truth: stamped(), attempts: []*attempt{{worker: 1, want: 1, line: "l", wanted: ms}}}
	require.Len(t, judge(e).stuck, 1)
	e.killed = map[int]time.Duration{1: 2 * ms}
	require.Empty(t, judge(e).stuck)
}

func TestAttemptsAreReadFromEvents(t *testing.T) {
	all := attempts([]Event{
		{At: 1, Worker: 1, Want: 1, Line: "l", Kind: "lock", What: want},
		{At: 2, Worker: 1, Want: 1, What: granted, Node: "a", Token: 7},
		{At: 3, Worker: 1, Want: 1, What: believed},
		{At: 5, Worker: 1, Want: 1, What: lost},
		{At: 6, Worker: 1, Want: 1, What: releasing},
		{At: 7, Worker: 1, Want: 1, What: released},
		{At: 8, Worker: 2, Want: 1, Line: "l", Kind: "lock", What: want},
	})
	require.Len(t, all, 2)
	require.Equal(t, attempt{worker: 1, want: 1, line: "l", kind: "lock", node: "a", token: 7, wanted: 1, granted: 2,
		believed: 3, releasing: 6, ended: 7, outcome: lost}, *all[0])
	require.Zero(t, all[1].ended)
}

// tries has two who hold one after the other, and a third who tries meanwhile and is told that the line is busy.
func tries(asks, told time.Duration) *evidence {
	e := &evidence{truth: stamped(node("a", 1, 20), node("b", 30, 40)),
		attempts: []*attempt{hold(1, "a", 5*ms, 19*ms), hold(2, "b", 30*ms, 39*ms),
			{worker: 3, line: "try-mutex", kind: "lock", wanted: asks, ended: told, outcome: busy}}}
	for _, a := range e.attempts {
		a.line = "try-mutex"
	}
	for _, s := range e.truth.nodes {
		s.line = "try-mutex"
	}
	return e
}

func readingOf(e *evidence, line string) porcupine.CheckResult {
	for _, r := range readHistories(e) {
		if r.line == line {
			return r.result
		}
	}
	return porcupine.Unknown
}

func TestATryIsToldTheTruth(t *testing.T) {
	require.Equal(t, porcupine.Ok, readingOf(tries(10*ms, 11*ms), "try-mutex"))
	require.Equal(t, porcupine.Ok, readingOf(tries(18*ms, 25*ms), "try-mutex"))
	require.Equal(t, porcupine.Illegal, readingOf(tries(22*ms, 28*ms), "try-mutex"), "nobody was there")

	late := tries(22*ms, 28*ms)
	late.stale = 3 * ms
	require.Equal(t, porcupine.Ok, readingOf(late, "try-mutex"), "a leader that has lost the others was asked")
	late.stale = ms
	require.Equal(t, porcupine.Illegal, readingOf(late, "try-mutex"), "so late it has noticed that")

	ghost := tries(22*ms, 28*ms)
	ghost.truth.nodes = append(ghost.truth.nodes, node("c", 21, 29))
	ghost.truth.nodes[2].line = "try-mutex"
	require.Equal(t, porcupine.Ok, readingOf(ghost, "try-mutex"), "the node of one who was never granted")
}

func TestAHistoryInWhichTwoWereInsideIsNotLinearizable(t *testing.T) {
	e := tries(10*ms, 11*ms)
	e.truth.nodes[0].gone = 35
	e.attempts[0].believed = 34 * ms
	require.Equal(t, porcupine.Illegal, readingOf(e, "try-mutex"))
}

// ZooKeeper 3.8.0 did that once when it was restarted under load: what it had confirmed for eight seconds was gone.
func TestWhatTheServiceHasForgottenIsHeldAgainstNobody(t *testing.T) {
	const epoch = int64(1) << 32
	at := func(name string, born, gone, number int64) *standing {
		s := node(name, born, gone)
		s.order = [2]int64{1, number}
		return s
	}
	truth := func(nodes ...*standing) *truth {
		all := &truth{nodes: nodes}
		for e := range int64(3) {
			for i := range int64(100) {
				all.stamps = append(all.stamps, stamp{e*epoch + i + 1, time.Duration(e*100_000+i*1000) * ms})
				all.acks = append(all.acks, stamp{e*epoch + i + 1, time.Duration(e*100_000+i*1000+500) * ms})
			}
		}
		return all
	}
	s := time.Second
	a, forgotten, again := at("a", 10, epoch*2+50, 1), at("b", epoch+10, epoch+30, 2), at("c", epoch*2+10, epoch*2+90, 2)
	before := at("d", epoch+5, epoch+8, 7)
	v := judge(&evidence{truth: truth(a, before, forgotten, again), attempts: []*attempt{
		hold(1, "a", 20*s, 30*s), // it was told that a had left, and so was b
		hold(4, "d", 106*s, 108*s),
		hold(2, "b", 115*s, 120*s),
		hold(3, "c", 260*s, 270*s)}})
	require.Len(t, v.lapses, 1)
	require.Empty(t, v.overlaps)
	require.Equal(t, 2, v.lapsed)

	v = judge(&evidence{truth: truth(a, again), attempts: []*attempt{hold(1, "a", 20*s, 30*s), hold(3, "c", 215*s, 220*s)}})
	require.Empty(t, v.lapses, "nothing is forgotten")
	require.Len(t, v.overlaps, 1)
}

// In such a run a member that was started again replayed what the others had forgotten. It went on to show the nodes of that part, and
// it let in who had come in the same epoch but before that part, after many seconds.
func TestMembersThatDisagreeAfterALapseAreHeldAgainstNobody(t *testing.T) {
	node := func(line string, guid string, number int) string {
		return fmt.Sprintf("/turnwise/%s/_c_%s-R-%010d", line, strings.Repeat(guid, 32), number)
	}
	tx := func(zxid int64, session, text string) transaction { return transaction{zxid, session, text} }
	history := []transaction{
		tx(0x1_00000001, "0x1", "createContainer /turnwise/crew,,[31,s{'world,'anyone}"),
		tx(0x1_00000002, "0x1", "createContainer /turnwise/left,,[31,s{'world,'anyone}"),
		tx(0x2_00000001, "0x1", "create "+node("left", "a", 0)+",turnwise"), // is there all the time
		tx(0x2_00000002, "0x2", "create "+node("crew", "b", 0)+",turnwise"), // all but one member forget it
		tx(0x3_00000001, "0x1", "create "+node("crew", "c", 0)+",turnwise"),
		tx(0x3_00000002, "0x1", "delete '"+node("crew", "c", 0)),
		tx(0x4_00000001, "0x1", "delete '"+node("left", "a", 0)),
		tx(0x4_00000002, "0x2", "closeSession"),
		tx(0x5_00000001, "0x1", "closeSession"),
	}
	s := time.Second
	failures := func(attempts ...*attempt) (*verdict, []string) {
		truth := replay(history)
		for epoch := range int64(6) {
			for i := range int64(3) {
				at := stamp{epoch<<32 + i, time.Duration(100*epoch+i) * s}
				truth.stamps, truth.acks = append(truth.stamps, at), append(truth.acks, at)
			}
		}
		v := judge(&evidence{truth: truth, attempts: attempts})
		require.Len(t, v.lapses, 1)
		return v, v.failures(nil)
	}
	grant := func(line, guid string, at time.Duration) *attempt {
		return &attempt{worker: 1, line: line, kind: "R", node: node(line, guid, 0), granted: at, believed: at, ended: at, outcome: released}
	}
	view := func(line string, at time.Duration) *attempt {
		return &attempt{worker: 1, line: line, kind: "R", wanted: at, ended: at, granted: at, round: 1, odd: []string{"two views have number 7"}}
	}
	v, all := failures(grant("left", "a", 390*s), view("crew", 350*s))
	require.Empty(t, all)
	require.Equal(t, 2, v.lapsed)

	_, all = failures(grant("left", "f", 390*s), view("left", 600*s), view("right", 350*s), view("crew", 450*s))
	require.Len(t, all, 4, "a node that never was, and views: after the sessions have ended, and of a line of which nothing is forgotten")
}

// What a session makes after its end was forgotten goes without a word in the log: a server that loads its data drops what is of a session
// that it knows to have ended.
func TestANodeOfASessionWhoseEndWasForgottenStandsInNobodysWay(t *testing.T) {
	node := func(guid string, number int) string {
		return fmt.Sprintf("/turnwise/quiet/_c_%s-lock-%010d", strings.Repeat(guid, 32), number)
	}
	tx := func(zxid int64, session, text string) transaction { return transaction{zxid, session, text} }
	failures := func(before transaction) (*verdict, []string) {
		truth := replay([]transaction{
			tx(0x1_00000001, "0x1", "createContainer /turnwise/quiet,,[31,s{'world,'anyone}"),
			before,
			tx(0x3_00000001, "0x2", "create "+node("a", 1)+",turnwise"),
			tx(0x4_00000001, "0x1", "create "+node("b", 2)+",turnwise"),
			tx(0x4_00000002, "0x1", "delete '"+node("b", 2)),
		})
		for epoch := range int64(5) {
			at := stamp{epoch<<32 + 1, time.Duration(100*epoch) * time.Second}
			truth.stamps, truth.acks = append(truth.stamps, at), append(truth.acks, at)
		}
		at := 400 * time.Second
		v := judge(&evidence{truth: truth, attempts: []*attempt{
			{worker: 1, line: "quiet", kind: "lock", node: node("b", 2), wanted: at, granted: at, believed: at, ended: at, outcome: released}}})
		return v, v.failures(nil)
	}
	v, all := failures(tx(0x2_00000001, "0x2", "closeSession v{}"))
	require.Empty(t, all)
	require.Len(t, v.lapses, 1)
	require.Equal(t, [2]int64{2, 3}, v.lapses[0].epochs)

	v, all = failures(tx(0x2_00000001, "0x3", "closeSession v{}"))
	require.Len(t, all, 2, "it stands ahead of who is granted, and is left")
	require.Empty(t, v.lapses)
}

func TestWhatTheAuditOfTheTracesFindsIsAFailureUnlessItIsTheServices(t *testing.T) {
	e := &evidence{unseen: true, truth: &truth{}, audit: &trace.Verdict{}}
	require.Empty(t, judge(e).failures(nil))
	e.audit.Wrong = []trace.Finding{{What: trace.GivenTwice, Line: "l"}}
	require.Len(t, judge(e).failures(nil), 1)

	x, y := hold(1, "a", 5*ms, 30*ms), hold(2, "b", 21*ms, 39*ms)
	x.outcome = lost
	e = &evidence{audit: e.audit, truth: stamped(node("a", 1, 20), node("b", 2, 40)), attempts: []*attempt{x, y}, frozen: []pause{{0, 0, 10 * ms}}}
	require.Empty(t, judge(e).failures(nil), "the service took the session away too early")
	e.audit.Wrong[0].Line = "another"
	require.Len(t, judge(e).failures(nil), 1)

	e.audit.Wrong[0].Line, x.outcome = "l", released
	require.Len(t, judge(e).failures(nil), 2, "it let go of what it had until then, as far as anybody knows")
	e.truth.nodes[0].revoked = true
	require.Empty(t, judge(e).failures(nil), "its lease was taken away, and it let go at the word of it")
	e.frozen = nil
	require.Len(t, judge(e).failures(nil), 2, "no server was frozen")

	x.believed = 15 * ms // and ended at 30
	e.frozen = []pause{{0, 0, 10 * ms}}
	require.Empty(t, judge(e).failures(nil), "only the traces tell how long it believed")
	x.ended = 15 * ms
	require.Len(t, judge(e).failures(nil), 1, "it had ended before")

	e = &evidence{unseen: true, truth: &truth{}, forgot: true, audit: &trace.Verdict{Wrong: []trace.Finding{{What: trace.WentBack}}}}
	require.Empty(t, judge(e).failures(nil), "the service began anew")
	e.audit.Wrong = []trace.Finding{{What: trace.TwoAtOnce}}
	require.Len(t, judge(e).failures(nil), 1)
}

func TestRoundsOfABarrierDoNotMix(t *testing.T) {
	met := func(worker int, round uint64, granted, believed time.Duration) *attempt {
		return &attempt{worker: worker, line: "meeting", kind: "R", round: round, granted: granted * ms, believed: believed * ms, ended: believed * ms}
	}
	e := &evidence{truth: &truth{}, attempts: []*attempt{met(1, 7, 10, 20), met(2, 7, 11, 15), met(3, 7, 12, 19), met(1, 8, 30, 40), met(4, 8, 21, 40)}}
	require.Empty(t, judge(e).mixed)
	e.attempts = append(e.attempts, met(4, 7, 13, 14))
	require.Len(t, judge(e).mixed, 1, "one too many")
	e.attempts[5] = met(2, 8, 18, 40)
	require.Len(t, judge(e).mixed, 2, "two of the round before were still inside")
	e.pauses = []pause{{3, 14 * ms, 19 * ms}}
	require.Len(t, judge(e).mixed, 1, "of these one was paused")
	require.Len(t, judge(e).failures(nil), 1)
	e.truth = stamped(node("a", 1, 19)) // and the other let go at the word that its lease was taken away
	e.truth.nodes[0].line, e.truth.nodes[0].revoked = "meeting", true
	require.Len(t, judge(e).mixed, 1, "no server was frozen")
	e.frozen = []pause{{0, 0, 15 * ms}}
	require.Empty(t, judge(e).mixed, "a server that was frozen took it away too early")
	e.truth.nodes[0].revoked = false
	require.Len(t, judge(e).mixed, 1, "it left by itself")
	e.truth.nodes[0].revoked, e.truth.nodes[0].gone = true, 40
	require.Len(t, judge(e).mixed, 1, "it went later")
	e.truth.nodes[0].gone, e.truth.nodes[0].line = 19, "another"
	require.Len(t, judge(e).mixed, 1, "that was in another line")
	e.forgot = true
	require.Empty(t, judge(e).mixed, "the service began anew")
}

func TestAGroupIsSeenInTheOrderInWhichItCame(t *testing.T) {
	view := func(number uint64, tokens ...coord.Token) (v group.View) {
		v.Number = number
		for _, n := range tokens {
			v.Members = append(v.Members, coord.Node{Token: n})
		}
		return v
	}
	require.Empty(t, unlike(view(0), view(1, 4, 7)))
	require.Empty(t, unlike(view(1, 4, 7), view(3, 7, 9)))
	require.Empty(t, unlike(view(3, 4, 9), view(3, 4, 9)), "seen again")
	require.NotEmpty(t, unlike(view(3, 4), view(3, 4, 9)), "it does not grow")
	require.NotEmpty(t, unlike(view(3, 4), view(4, 9, 4)), "out of order")
	require.NotEmpty(t, unlike(view(3, 4, 7), view(4, 4, 5, 7)), "somebody came in the middle")
}

func TestAPeerHasNoTokens(t *testing.T) {
	e := &evidence{unseen: true, truth: &truth{}, attempts: []*attempt{
		{worker: 1, line: "flock", kind: "lock", granted: 10, believed: 11, ended: 12},
		{worker: 2, line: "flock", kind: "lock", granted: 20, believed: 21, ended: 22},
		{worker: 2, line: "mutex", kind: "lock", token: 1, granted: 30, believed: 31, ended: 32},
	}}
	v := judge(e)
	require.Empty(t, v.failures(nil))
	var report strings.Builder
	v.write(&report, nil)
	require.Contains(t, report.String(), "| flock | 2 | no tokens | no tokens |")
	require.Contains(t, report.String(), "| mutex | 1 | 0 | 0 (0) |")
	e.attempts[1].granted = 10 // both believed: a peer is only counted
	require.Len(t, judge(e).beliefs, 1)
	require.Empty(t, judge(e).failures(nil))
}
