package planted

// engine are the bugs of package coord.
var engine = []Bug{
	{"holds do not end at the deadline", []Edit{
		{"coord/hold.go", `case !h.session.alive():`, `case false:`},
		{"coord/session.go", `s.loseAll(lostDeadline)`, ``},
	}, hunt("etcd")},
	one("a turn is given though the deadline has passed",
		"coord/acquire.go", `case len(wait) == 0 && s.alive():`, `case len(wait) == 0 && (s.alive() || true):`, hunt("etcd")),
	one("a holder that may not ask whether its node has gone goes on",
		"coord/driver/driverkit/wait.go", `if errors.Is(err, driver.ErrDenied) && ctx.Err() == nil`, `if errors.Is(err, driver.ErrDenied) && ctx.Err() != nil`,
		Tests{Module: ".", Package: "./coord/driver/driverkit", Run: "^TestWhoMayNotAskBelievesTheNews$"}),
	one("who closes a client does not wait until observers know of the session's end",
		"coord/client.go", `	if s != nil && s.ended() {
		c.dropSession(s)`, `	if s != nil && s.ended() && false {
		c.dropSession(s)`, testsEngine("TestTheEndOfTheSessionIsToldBeforeCloseReturns")),
	{"who is told first of a release finds the hold there still", []Edit{
		{"coord/hold.go", `last := h.outer == nil && h.session.remove(h)`, `last := h.outer == nil`},
		{"coord/hold.go", `	return last
`, `	return last && h.session.remove(h)
`},
	}, testsEngine("TestAHookThatClosesTheClientFindsNothingHeld")},
	one("giving up leaves the node behind",
		"coord/acquire.go", "			}\n			a.leaveSoon(s, place)\n		}\n	}()", "			}\n		}\n	}()", hunt("register")),
	one("a holder marks even if somebody was ahead of it",
		"coord/acquire.go", `alone := len(ahead) == 0 && a.rule.Sight.Ignore == nil`, `alone := true`, hunt("zookeeper")),
	one("nobody watches over a held node",
		"coord/hold.go", `h.timer = time.AfterFunc(watchAfter, h.startWatch)`, `h.timer = time.AfterFunc(watchAfter, func() {})`, hunt("zookeeper")),
	one("whoever has one of many permits after a wait does not say so",
		"coord/acquire.go", `go h.announce()`, ``, hunt("register", "-sim.recipe=semaphore", "-sim.hunt=1500")), // seldom the only one to know
	one("a hold is a writer until its downgrade is answered",
		"coord/amend.go", `h.openAs.Store(&kind)`, `_ = &kind`, hunt("register")),
	one("what is nested in a hold goes on as a writer after a downgrade",
		"coord/amend.go", `h.downgrade(kind)`, ``, hunt("register")),
	{"a session is replaced before its holds have ended", []Edit{
		{"coord/session.go", `		s.loseAll(s.lost())
		c.mu.Lock()
		defer c.mu.Unlock()
		if !s.abandoned.Load() {
`, `		c.mu.Lock()
		defer c.mu.Unlock()
		if false {
`},
		{"coord/session.go", `			s.client.dropSession(s)
			return
`, `			s.client.dropSession(s)
			s.loseAll(s.lost())
			return
`},
	}, hunt("register", "-sim.hunt=2000")},
	one("a waiter enters beside a holder of its own client",
		"coord/session.go", `beside = s.isBeside(h); beside {`, `beside = false && s.isBeside(h); beside {`, testsEngine("TestAWaiterDoesNotEnterBesideAHolderOfItsOwnClient")),
	one("a release after closing takes nothing away",
		"coord/hold.go", `if errors.Is(err, driver.ErrSessionEnded) && h.session.abandoned.Load() {`, `if err == nil && h.session.abandoned.Load() {`,
		Tests{Module: ".", Package: "./coord/register/storetest", Run: "^TestDriverOnAPresence$/^18/" + named("a release after closing takes the node away")}),
	one("a hold whose node may have gone with its session goes on until that is known",
		"coord/watch.go", `h.finish(lostNode)`, ``, testsEngine("TestAHoldEndsBeforeItIsKnownWhy")),
	one("nobody looks after the first hold of a session that was past its deadline",
		"coord/session.go", `case s.roused <- struct{}{}:`, ``, testsEngine("TestASessionThatIdlesPastItsDeadline")),
	one("a hold goes on for longer than it may",
		"coord/hold.go", `if !h.overdue.IsZero() && !time.Now().Before(h.overdue) {`, `if false {`, testsEngine("TestAHoldEndsByItselfAndTheNextOneEnters")),
	one("a thread waits beside its own process, and that closes a circle",
		"coord/circle.go", ` || there[p]:`, `:`, testsEngine("TestAChainIsNoCircle")),
	one("all lines are listed for a circle whenever a wait runs out",
		"coord/circle.go", `if time.Now().Before(c.nextSurvey) {`, `if false {`, testsEngine("TestTheSearchForACircleIsBounded")),
	one("a search for a circle goes through all who stand in a line",
		"coord/circle.go", `for _, n := range nodes[:min(len(nodes), mostIn)] {`, `for _, n := range nodes {`, testsEngine("TestALineOfAStrangerCostsLittleToLookAt")),
	one("a line that a neighbour has spoilt hides a circle",
		"coord/circle.go", `case errors.Is(err, ErrDenied):`, `case false:`, testsEngine("TestALineThatIsSpoiltHidesNoCircle")),
}

// testsEngine is a test of the engine's own.
func testsEngine(name string) Tests {
	return Tests{Module: ".", Package: "./coord", Run: "^" + name + "$"}
}
