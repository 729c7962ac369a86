package drivertest

import (
	"strings"
	"sync"
	"testing"

	"github.com/turnwise/turnwise/internal/attempt"
)

// TestSuiteCatches plants each flaw in the model and plays the scenarios meant to catch it: they must fail. TestModel
// shows that they pass without the flaw.
func TestSuiteCatches(t *testing.T) {
	t.Setenv(attempt.PatienceVariable, "3s") // how long to wait for what does not happen
	places := make(chan struct{}, 12)
	var all sync.WaitGroup
	var alone []func()
	for f, names := range caughtBy {
		for _, name := range names {
			sc := find(t, name)
			check := func() {
				t.Run(string(f)+"/"+name, func(t *testing.T) {
					var a *attempt.Attempt
					for range 10 { // some flaws need luck with the timing, which a busy machine may not allow at the first try
						a = attempt.Play(t, func(t testing.TB) {
							sc.play(t, modelHarness(f)(t))
						})
						if a.Failed() {
							t.Log(a.Failures()[0])
							return
						}
					}
					t.Errorf("not caught (skipped: %q)", a.WhySkipped())
				})
			}
			if sc.alone {
				alone = append(alone, check)
				continue
			}
			all.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				check()
			})
		}
	}
	all.Wait()
	for _, check := range alone {
		check()
	}
}

// find returns the scenario with this name, which begins with the number of its obligation.
func find(t *testing.T, name string) scenario {
	t.Helper()
	for _, o := range obligations {
		for _, sc := range o.scenarios {
			if number, _, _ := strings.Cut(o.name, " "); number+" "+sc.name == name {
				return sc
			}
		}
	}
	t.Fatalf("there is no scenario %q", name)
	return scenario{}
}

var caughtBy = map[flaw][]string{
	noCleanUp:           {"01 cancelled in a frozen link", "01 cancelled in a frozen link, and the clean-up lost", "08 many calls in a frozen link"},
	lateApplyNotFenced:  {"18 an acquire that is given up leaves nothing", "01 applied late", "01 cancelled before it is applied late", "15 under every fate"},
	joinRetriedBlindly:  {"01 reply lost", "01 cancelled when its reply was lost", "01 many at once under every fate are not confused"},
	leaveGivesUp:        {"06 under every fate", "06 in an ended context", "06 while the link is cut"},
	leaveByPlace:        {"06 a second release does not touch the newer node", "06 applied late, when the line has been joined again"},
	deadlineFromReceipt: {"07 everything takes long"},
	deadlineNeverPasses: {"07 nothing passes", "07 no request passes", "07 no reply passes", "07 the link is cut", "07 replies arrive late", "18 a hold ends before the next one enters: nothing passes"},
	deadlineMovesBack:   {"07 it moves forward only"},
	removalIgnored:      {"18 an operator breaks a hold and a wait", "09 of a holder", "09 of a waiter", "09 of a waiter whose turn it is at the same time", "09 while the link is cut"},
	endTakenForRemoval:  {"03 the end of a session is not taken for a removal"},
	wakeUpLost:          {"04 the node left before the wait began", "04 the watch is set while the link is cut"},
	newsLostInCut:       {"04 the node leaves while the link is cut"},
	quitterUnwatches:    {"04 many wait for the same node, and one gives up"},
	markTrustedAlone:    {"12 one in the middle gives up", "12 one in the middle is amended and dies", "12 one in the middle is amended, and gives up unheard"},
	writeForTurn:        {"20 to one in the middle, which gives up", "20 to one in the middle, which dies", "20 to one in the middle, which gives up unheard"},
	markWithoutPlace:    {"12 the mark of one that is not right ahead"},
	notPinned:           {"03 what was asked of a session is not done in another"},
	cutEndsSession:      {"03 a short cut is ridden out"},
	deadNodesStay:       {"03 the service ends one of two sessions", "03 a session that is not heard of ends", "18 a waiter whose session is ended joins again"},
	closeLeavesNodes:    {"03 closing removes at once", "03 closing the driver ends its sessions"},
	abandonCloses:       {"18 closing with a hold lets nobody in beside it", "03 abandoning leaves the nodes to the TTL"},
	abandonCutsShort:    {"03 abandoning takes away what is on its way out", "18 closing beside a hold leaves nothing of a join under way"},
	abandonKeeps:        {"03 abandoning leaves the nodes to the TTL"},
	waitOutlivesSession: {"03 a session that has ended says so"},
	contextIgnored:      {"08 nothing passes", "08 no request passes", "08 no reply passes"},
	tryJoins:            {"15 a busy line is never joined"},
	tryWantsAll:         {"15 room for several"},
	tryReadsAll:         {"15 a look as long as a join's"},
	busyIfOutOfReach:    {"15 a service out of reach is not busy", "08 nothing passes"},
	goroutineLeak:       {"11 goroutines and files after use and close", "11 waits that are given up"},
	oneReadTooMany:      {"16 requests and events", "16 round trips"},
	herd:                {"05 a hand-off costs the same in a long line", "05 a waiter in the middle that leaves wakes one"},
	tokensRestart:       {"02 across an emptied line", "02 across a line forgotten and used again"},
	amendCreates:        {"13 of a node that was removed", "13 applied late to a node that was removed"},
	amendWakesNobody:    {"13 another kind wakes those behind"},
	amendMovesBack:      {"13 another kind wakes those behind"},
	nestedLinesCount:    {"10 nested lines do not disturb each other"},
	foreignersCount:     {"10 foreign children do not count"},
	namesFold:           {"10 names that look alike"},
	removalDoubted:      {"09 of a holder whose requests stall"},
	dataCut:             {"10 a line shows its nodes in order, with owner and data"},
	blindLook:           {"14 the nearest of some kinds", "14 all of them", "15 many at once: one at most"},
	firstByID:           {"17 as it changes"},
	firstOnly:           {"17 the whole line as it changes", "17 the whole line, many at once"},
	comingsOnly:         {"17 the whole line as it changes"},
	firstWaits:          {"17 that the service is out of reach"},
	memoOfTheGone:       {"21 not written once the node was removed", "21 not written once the session has ended"},
	memosFold:           {"21 each line has its own"},
	memoGoes:            {"21 it stays when the line is empty"},
	memoAfterLeave:      {"21 given up, then left: not written any more"},
	memoTryLate:         {"21 a try that is applied late undoes nothing"},
	amendNotAsked:       {"13 of a node that was removed"},
	claimsTTL:           {"19 a process that is not heard of", "03 a session that is not heard of ends", "07 nothing passes"},
	claimsKernel:        {"19 a process that is killed", "19 a process that is not heard of", "03 a session that is not heard of ends", "07 nothing passes"},
	claimsTold:          {"19 waiters are told, or poll"},
	claimsMemory:        {"19 a restart"},
	claimsOpenness:      {"19 a restart"},
	claimsForEver:       {"19 a restart"},
	concealsOrder:       {"19 turns come in the order of joining, or not"},
	concealsTold:        {"19 waiters are told, or poll"},
	concealsMemory:      {"19 a restart"},
	concealsOpen:        {"19 a restart"},
	concealsForEver:     {"19 a restart"},
}
