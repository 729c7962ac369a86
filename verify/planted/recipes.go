package planted

// recipes are the bugs of recipes that are more than a rule.
var recipes = []Bug{
	one("multi: whoever waits keeps the lines behind",
		"recipes/multi/plan.go", `back = append(back, i)`, `_ = append(back, i)`, hunt("register", "-sim.recipe=several")),
	one("multi: what was held and lost while it waited counts",
		"recipes/multi/round.go", `if err := h.Err(); err != nil {`, `if err := h.Err(); err != nil && false {`, testsMulti("TestItBeginsAgainWhenTheSessionIsLost")),
	one("multi: whoever gives up keeps what it had",
		"recipes/multi/round.go", `taken.GiveBack(slices.DeleteFunc(r.holds, func(h *coord.Hold) bool { return h == nil })...)`, ``,
		testsMulti("TestATryLeavesNothing")),
	one("multi: what is granted while it steps back is kept",
		"recipes/multi/round.go", `		r.release(n.line, n.hold)
		return nil
	case n.is == held:`, `		return nil
	case n.is == held:`, hunt("register", "-sim.recipe=several")),
	one("multi: whoever holds a later line may wait for an earlier one",
		"recipes/multi/multi.go", `after >= first`, `after > first && false`, testsMulti("TestWhatCannotBeTakenIsRefusedAtOnce")),
	one("multi: the hold goes on when one of its lines has ended",
		"recipes/multi/hold.go", `ctx, cancel = one.With(ctx)`, `_, cancel = one.With(ctx)`, testsMulti("TestTheHoldEndsWithTheFirstOfItsLines")),
	one("once: a slot is noted after the job, though it is to be run at most once",
		"recipes/once/once.go", `if t.policy == AtMostOnce {
		err = h.SetMemo`, `if t.policy == AtMostOnce && false {
		err = h.SetMemo`,
		testsOnce("TestASlotWhoseProcessDiesIsNotRunAgainIfAtMostOnce")),
	one("once: nobody looks again under the lock",
		"recipes/once/once.go", `t.look(t.recordOf(h.Memo(ctx))); err != nil || settled {`, `t.look(t.recordOf(h.Memo(ctx))); err != nil || settled && false {`,
		hunt("etcd", "-sim.recipe=once")),
	one("once: who was late with its look under the lock runs the slot",
		"recipes/once/once.go", `if end := h.Err(); err == nil && end != nil {`, `if end := h.Err(); err == nil && end != nil && false {`, testsOnce("TestWhoIsLateWithItsLookRunsNothing")),
	one("once: what was noted without an answer counts as run for who noted it",
		"recipes/once/once.go", `t.inert = append(t.inert, h.Token())`, ``, testsOnce("TestASlotThatWasNotedWithoutAnAnswerIsRunByWhoNotedIt")),
	one("once: what was noted as the hold was lost counts as run for who noted it",
		"recipes/once/once.go", `	if err != nil {
		t.inert = append`, `	if err != nil && h.Err() == nil {
		t.inert = append`, testsOnce("TestASlotThatWasNotedAsTheHoldWasLostIsRunByWhoNotedIt")),
	one("once: what was noted without an answer is run after a later slot",
		"recipes/once/once.go", `last.Slot == t.slot && !last.Done && slices.Contains(t.inert, last.Token)`, `len(t.inert) > 0 && slices.Contains(t.inert, t.inert[0])`,
		testsOnce("TestASlotThatWasNotedWithoutAnAnswerIsNotRunAfterALaterOne")),
	one("once: a schedule that each process has for itself is run",
		"recipes/once/run.go", `case drifts(s, from):`, `case drifts(s, from) && false:`, testsOnce("TestASchedulePerProcessIsRefused")),
	one("once: a slot that failed is given up though all are to be run",
		"recipes/once/run.go", `if missed != RunAll {
		next =`, `if missed > 0 {
		next =`, testsOnce("TestNoSlotIsGivenUpIfAllAreRun")),
	one("once: nobody is told that a slot of the future was noted",
		"recipes/once/run.go", `case e.Err == nil && t.last.Slot > max`, `case false && t.last.Slot > max`, testsOnce("TestASlotOfTheFutureIsToldToAllAndForgotten")),
	one("once: an earlier slot is run after a later one",
		"recipes/once/once.go", `	case last.Slot > slot:
		return true`, `	case last.Slot > slot:
		return false`, testsOnce("TestASlotWhoseProcessDiesIsNotRunAgainIfAtMostOnce")),
	one("once: a job that failed counts as run",
		"recipes/once/once.go", `		if err := fn(ctx, h); err != nil {
			return err
		}`, `		_ = fn(ctx, h)`, testsOnce("TestASlotWhoseProcessDiesIsRunAgainIfAtLeastOnce")),
	one("once: a job that is run at most once begins before its note has an answer",
		"recipes/once/once.go", `		err = h.SetMemo(ctx, Record{Slot: t.slot, Token: h.Token()}.encode())`,
		`		go h.SetMemo(ctx, Record{Slot: t.slot, Token: h.Token()}.encode())`,
		slotsEndAnywhere("a slot whose process is cut off at any request, and comes back, if at most once")),
	one("once: a slot is noted as run before the job, though it is to be run at least once",
		"recipes/once/once.go", `	if t.policy == AtMostOnce {
		err = h.SetMemo(ctx, Record{Slot: t.slot, `, `	if t.policy > 0 {
		err = h.SetMemo(ctx, Record{Slot: t.slot, Done: t.policy == AtLeastOnce, `,
		slotsEndAnywhere("a slot whose process dies before any request, if at least once")),
	one("group: a lock of the group's name becomes a member",
		"recipes/group/group.go", ` || h.Node().Kind != rules.Reader {`, ` {`,
		Tests{Module: ".", Package: "./recipes/group", Run: "^TestOnlyAMemberIsUpdated$"}),
	one("shards: one that is refused ends the work of all",
		"recipes/shards/shards.go", `all = len(w.denied) == len(w.owned) && (`, `all = true || (`,
		Tests{Module: ".", Package: "./recipes/shards", Run: "^TestAShardThatIsRefusedLeavesTheOthersAlone$"}),
	one("shards: one that is refused is all, for a member that owns no other",
		"recipes/shards/shards.go", ` && (len(w.owned) > 1 || w.s.count == 1)`, ``, Tests{Module: ".", Package: "./recipes/shards", Run: "^TestAShardThatIsRefusedEndsNoMember$"}),
	one("shards: who is refused all of them goes on asking",
		"recipes/shards/shards.go", `all = len(w.denied) == len(w.owned) && (`, `all = len(w.denied) > len(w.owned) && (`,
		Tests{Module: ".", Package: "./recipes/shards", Run: "^TestWhoIsRefusedAllIsTold$"}),
	one("shards: one that is refused is asked for as often as ever",
		"recipes/shards/shards.go", `driverkit.Sleep(ctx, driverkit.Jitter(pause))`, `driverkit.Sleep(ctx, driverkit.Jitter(firstPause))`,
		Tests{Module: ".", Package: "./recipes/shards", Run: "^TestAShardThatIsRefusedLeavesTheOthersAlone$"}),
	one("election: whoever is elected leads, though a better candidate stands",
		"recipes/election/rank.go", `return err == nil && slices`, `return err != nil && slices`,
		Tests{Module: ".", Package: "./recipes/election", Run: "^TestABetterCandidateLeadsSoonAfterItHasCome$"}),
	one("election: a term that has ended before it began is returned",
		"recipes/election/election.go", `if !gives && end == nil {`, `if !gives {`,
		Tests{Module: ".", Package: "./recipes/election", Run: "^TestATermThatEndsBeforeItBeginsIsNotReturned$"}),
	one("election: who stands again waits anew for as long as MaxWait says",
		"recipes/election/election.go", `max(*maxWait, 0)-time.Since(began)`, `max(*maxWait, 0)+0*time.Since(began)`,
		Tests{Module: ".", Package: "./recipes/election", Run: "^TestStandingAgainTakesNoMoreThanMaxWait$"}),
	one("election: who yields within its term has none afterwards",
		"recipes/election/rank.go", `if t.of.client.Held(ctx, t.of.name) != nil {`, `if t.of.client.Held(ctx, t.of.name) != nil && false {`,
		Tests{Module: ".", Package: "./recipes/election", Run: "^TestWhoYieldsWithinItsTermGoesOnLeading$"}),
	one("coord: data that looks like a remark is read as one",
		"coord/note.go", `if misread(b, data) {`, `if misread(b, data) && false {`, testsEngine("TestDataIsNoRemark")),
	one("coord: who has lost its place gives up without a word",
		"coord/acquire.go", `if a.lost != nil {`, `if a.lost != nil && false {`, testsEngine("TestAnObserverIsToldWhoGivesUpAfterItHasLostItsPlace")),
	one("coord: within a hold that shuts out all one may wait for itself",
		"coord/nested.go", `return rules.Covers(h.kind(), rules.Lock) && `, `return false && `, testsEngine("TestWithinAHoldThatShutsOutAllNobodyJoinsAnew")),
	one("coord: who holds beside a holder is heard asking",
		"coord/ask.go", `n.Asks != "" && !n.Holds`, `n.Asks != ""`, testsEngine("TestWhoHoldsBesideWantsNothing")),
	one("coord: an amendment takes the rank away",
		"coord/amend.go", `kind, h.says.with(data)`, `kind, remarks{turn: h.says.turn}.with(data)`,
		Tests{Module: ".", Package: "./coord", Run: "^TestWhatANodeSaysStaysBesideItsData$"}),
	one("barrier: a round is begun again by those whom it was begun for",
		"recipes/barrier/place.go", `case latest.reaches(p.me):`, `case false && latest.reaches(p.me):`,
		testsBarrier("TestARoundThatHasBegunHasBegunForAll")),
	one("barrier: a round is for all who are there, however many",
		"recipes/barrier/place.go", `all[p.size-1].Token`, `all[len(all)-1].Token`, testsBarrier("TestOneTooManyWaitsForTheNextRound")),
	one("barrier: who waits for another number is counted",
		"recipes/barrier/place.go", `p.came(all) >= p.size`, `len(all) >= p.size`, testsBarrier("TestWhoWaitsForAnotherNumberIsNotCounted")),
	one("barrier: who lost its place comes again, and was counted before",
		"recipes/barrier/barrier.go", `case r.reaches(w.me):`, `case r.reaches(w.me) && false:`, testsBarrier("TestWhoWasCutOffComesAgainUnlessItMayHaveBeenCounted")),
	one("barrier: who has left long before a round begins is counted",
		"recipes/barrier/barrier.go", `			late = true`, `			late = false`, testsBarrier("TestWhoHasLeftLongBeforeTheRoundBeginsIsNotCounted")),
	one("barrier: who leaves does not wait for the others",
		"recipes/barrier/barrier.go", `all[0].Token <= in.last:`, `all[0].Token <= 0:`, testsBarrier("TestAllAreInsideAtTheSameTime")),
	one("together: a node whose hold has ended is passed on",
		"coord/together.go", `if n.life.Err() != nil || n.hold.Err() != nil {`, `if n.life.Err() != nil {`,
		testsTogether("TestAfterALossThoseWhoWaitStandAgainInTheirOrder")),
	one("together: two who exclude each other are inside",
		"coord/together.go", `(len(n.inside) == 0 || n.isOpenToAll()) {`, `n.inside != nil {`, hunt("register", "-sim.recipe=together")),
	one("together: a try takes the turn of somebody inside",
		"coord/together.go", `node.hold != nil && (len(node.inside) == 0 || node.isOpenToAll()):`, `node.hold != nil:`,
		hunt("register", "-sim.recipe=together")),
	one("together: whoever comes late steps in all the same",
		"coord/together.go", `(n.sent.IsZero() || time.Since(n.sent) < within) &&`, `within > 0 &&`,
		testsTogether("TestWhoeverAsksLaterStandsBehindWhoCameMeanwhile")),
	one("together: a node stays for ever while there is somebody for it",
		"coord/together.go", `if left <= 0 || n.turns >= maxTurns || n.wanted {`, `if n.turns >= maxTurns || n.wanted {`,
		testsTogether("TestTheNodeStaysUntilItsWindowHasPassed")),
	one("together: a node has more turns than tokens",
		"coord/together.go", `int(n.turns)+len(n.waiting) < maxTurns && `, ``, testsTogether("TestMoreThanANodeHasRoomForStandInTheNext")),
	one("together: all turns of a node have one token",
		"coord/together.go", `nth: n.turns}`, `nth: 1}`, hunt("register", "-sim.recipe=together")),
	one("together: a node is passed on under a guard",
		"coord/together.go", `			h.shared.pin(h)
`, ``, testsTogether("TestAPinnedHoldIsTheLastOfItsNode")),
	one("together: whoever let go counts as a holder of the node still",
		"coord/nested.go", `if h.isTurn() { // the node's own hold is nobody's`, `if false {`, testsTogether("TestATurnKnowsItsOwnContext")),
	one("together: the last one to give up leaves the node",
		"coord/together.go", `	n.end()
	n.cancel(why)
	return n, true`, `	n.end()
	return nil, true`, testsTogether("TestAmongThoseWhoWaitEachMayGiveUp")),
	one("together: a turn that comes when all have given up is kept",
		"coord/together.go", `return n.over() // all may have given up just now`, `n.advance()
			return false`, testsTogether("TestATurnThatComesWhenAllHaveGivenUpIsGivenBack")),
	one("together: a node that nobody is in is left to the TTL by Close",
		"coord/together.go", `	for _, some := range s.lines {
		nodes = append(nodes, some...)
	}
`, ``,
		testsTogether("TestTheEndOfTheClientIsTheEndOfItsTurns")),
	one("together: a try has a turn though Shutdown has begun",
		"coord/together.go", `case node == nil, a.life.Err() != nil:`, `case node == nil:`,
		Tests{Module: ".", Package: "./recipes/rwlock", Run: "^TestOnceShutdownHasBegunATryIsRefused$"}),
	one("together: whoever moves to a node that nobody is in waits for ever",
		"coord/together.go", `next.advance() // it may be held, with nobody inside`, ``, testsEngine("TestWhoMovesToANodeThatNobodyIsInHasItsTurn")),
	one("together: a memo of a turn that is over is written",
		"coord/memo.go", `h.Pin() // so that Release waits for what is under way`, ``, testsTogether("TestAPinnedHoldIsTheLastOfItsNode")),
}

func testsTogether(name string) Tests {
	return Tests{Module: ".", Package: "./recipes/mutex", Run: "^" + name + "$"}
}

func testsOnce(name string) Tests {
	return Tests{Module: ".", Package: "./recipes/once", Run: "^" + name + "$"}
}

func slotsEndAnywhere(scenario string) Tests {
	return Tests{Module: ".", Package: "./coord/register/storetest", Run: "^TestRecipesOnMemory$/^once_in_a_slot$/" + named(scenario)}
}

func testsBarrier(name string) Tests {
	return Tests{Module: ".", Package: "./recipes/barrier", Run: "^" + name + "$"}
}

func testsMulti(name string) Tests {
	return Tests{Module: ".", Package: "./recipes/multi", Run: "^" + name + "$"}
}
