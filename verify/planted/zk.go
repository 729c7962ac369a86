package planted

// zk are the bugs of the driver for ZooKeeper.
var zk = []Bug{
	one("zk: the deadline counts from the receipt of an answer",
		"coord/zk/renewal.go", `deadlines.Link{Sent: sent.Sub(r.began),`, `deadlines.Link{Sent: time.Since(r.began),`, testsZK("TestTheDeadlineCountsFromTheSending")),
	one("zk: a greeting that took long counts as if it had not",
		"coord/zk/renewal.go", `r.links.Connected(sent.Sub(r.began), timeout)`, `r.links.Connected(time.Since(r.began), timeout)`, scriptsZK("deaf")),
	one("zk: what was sent is what the service knows of",
		"coord/driver/deadlines/zookeeper.go", `if a, found := l.chainTo(c); found {
		l.touched`, `if a := c; true {
		l.touched`, testsZK("TestTheDeadlineCountsFromTheSending")),
	one("zk: a server that says that a right is missing speaks for all",
		"coord/zk/internal/wire/requests.go", `gozk.ErrNotEmpty, gozk.ErrBadVersion:`, `gozk.ErrNotEmpty, gozk.ErrBadVersion, gozk.ErrNoAuth:`, testsZK("TestOnlyWhatTheLeaderHasAnsweredRenews$/^writes_that_a_server_refuses")),
	one("zk: a session on which nothing stands is not renewed",
		"coord/zk/renewal.go", `if due > 0 || `, `if due > 0 || !s.isNeeded() || `, testsZK("TestTheFirstJoinAfterIdlingIsSureAtOnce")),
	one("zk: whoever waits in a line that goes away as a whole gets a strange error",
		"coord/zk/await.go", `errors.Is(err, gozk.ErrNoNode) { // the line`, `false && errors.Is(err, gozk.ErrNoNode) { // the line`, testsZK("TestWhoWaitsInALineThatGoesAwayIsRemoved")),
	{
		Name: "zk: a server that is cut off from the others vouches for a session",
		Edits: []Edit{
			{"coord/zk/renewal.go", `if by == wire.Server {`, `if false {`},
			{"coord/zk/renewal.go", `Commit: by == wire.Majority`, `Commit: true`},
			{"coord/zk/renewal.go", `w.Send(link)`, `_ = link`},
		},
		By: scriptsZK("strands"),
	},
	{
		Name: "zk: a write that was agreed to vouches for the session of whoever idled",
		Edits: []Edit{
			{"coord/driver/deadlines/zookeeper.go", `l.commit = max(l.commit, c.Sent)
	}`, `l.commit = max(l.commit, c.Sent)
		l.touched = l.commit
	}`},
			{"coord/zk/renewal.go", `if due > 0 || `, `if due > 0 || !s.isNeeded() || `},
			{"coord/zk/renewal.go", `if waiting > timeout/2 || waiting > timeout*3/10 && w.Awaits(wire.Leader) {`, `if false && waiting > timeout {`},
			// It would be noticed before two hold, by what the holder says of its deadline.
			{"verify/simulation/judge.go", `if err := w.outlived(c); err != nil {`, `if err := w.outlived(c); false && err != nil {`},
		},
		By: scriptsZK("parted"),
	},
	one("zk: a watch that is refused counts as set",
		"coord/zk/watches.go", `setting.set = setting.set || err == nil && w.changes`, `setting.set = setting.set || w.changes`, scriptsZK("refused")),
	one("zk: whoever relies on a watch that is used up at once is not told",
		"coord/zk/watches.go", `if setting.relied && !setting.set && err == nil {`, `if false && setting.relied && !setting.set && err == nil {`,
		testsZK("TestWhoReliesOnAWatchThatIsUsedUpAtOnceIsToldSo")),
	{
		Name: "zk: the node of an amendment without an answer is watched from before it was made, and nobody is told",
		Edits: []Edit{
			{"coord/zk/watches.go", `if setting.relied && !setting.set && err == nil {`, `if false && setting.relied && !setting.set && err == nil {`},
			{"coord/zk/amend.go", `p.paths, p.made = append(p.paths, next), math.MaxInt64`, `p.paths, p.made = append(p.paths, next), min(p.made, math.MaxInt64)`},
		},
		By: conformsZK("13", "a holder that gave it up goes on watching over its node"),
	},
	one("zk: watches that are kept for nobody are never taken back",
		"coord/zk/watches.go", `if t.idle <= most {`, `if true || t.idle <= most {`, testsZK("TestNamesThatNobodyUsesLeaveFewWatches")),
	one("zk: what a node said stands although it has changed since",
		"coord/zk/watches.go", `return sight{w, t.stateNow(w), w`, `return sight{w, state{0, w.gone, t.connection}, w`,
		testsZK("TestWhatWasReadStandsUntilAChangeMayHaveBeenMissed|TestAChangeOfAGroupIsReadAlone")),
	one("zk: what a node said stands although nobody watched it for a while",
		"coord/zk/watches.go", `		s.lapses++
`, ``, testsZK("TestWhatWasReadStandsUntilAChangeMayHaveBeenMissed")),
	one("zk: what was read over one connection stands beside a list that came over another",
		"coord/zk/watches.go", `w == nil || w.gone || over != t.over || `, `w == nil || w.gone || `, testsZK("TestWhatWasReadStandsUntilAChangeMayHaveBeenMissed")),
	one("zk: whoever watches a group reads all of it at each change",
		"coord/zk/first.go", `show := s.showWatched`, `show := s.show`, testsZK("TestAChangeOfAGroupIsReadAlone")),
	one("zk: all watches on a long line are asked for at once",
		"coord/zk/watches.go", `batches[n-1].bytes >= maxWatched`, `false`, testsZK("TestWhoWatchesALongLineKeepsItsConnection")),
	one("zk: a quota that is used up is taken for trouble on the way",
		"coord/zk/retry.go", `errQuota, errLocalSession,`, ``, testsZK("TestAQuotaThatIsUsedUpIsSaidToBe")),
	one("zk: whoever may not write is refused its turn after a silence",
		"coord/zk/amend.go", `if same && errors.Is(err, gozk.ErrNoAuth) {`, `if false && same && errors.Is(err, gozk.ErrNoAuth) {`,
		testsZK("TestWhetherANodeStandsIsAskedWithoutTheRightToWrite$/^one_server")),
	one("zk: a refusal counts as certain after a try that had no answer",
		"coord/zk/retry.go", `return v, lost.Load() || isCtx(err), err`, `return v, isCtx(err), err`, testsZK("TestARefusalAfterATryThatHadNoAnswerLeavesItOpen")),
	one("zk: a departure that had no answer is not repeated",
		"coord/zk/leave.go", `err := driverkit.UntilGone(ctx, p.session.life, try, passing)`, `err := try(ctx)`, conformsZK("06", "in an ended context")),
	one("zk: the end of a node lets in whoever waits for it, right behind or not",
		"coord/zk/place.go", `p.nearest == nodePath && `, ``, testsZK("TestAHolderFurtherAheadLetsNobodyIn")),
	one("zk: the end of the node right ahead lets in whoever waits for it, with others ahead",
		"coord/zk/place.go", ` && (p.only || handsOver)`, ``, hunt("zookeeper")),
	one("zk: a look from before a backup lets in after it",
		"coord/zk/place.go", `knows && p.nearest`, `(knows || true) && p.nearest`, testsZK("TestWhoIsBroughtBackAheadIsWaitedFor")),
	one("zk: who came to hold before a backup hands over after it",
		"coord/zk/leave.go", `if handsOver == by {`, `if handsOver != nil {`, testsZK("TestWhoIsBroughtBackAheadIsWaitedFor")),
	one("zk: who leaves before a backup hands over after it",
		"coord/zk/watches.go", `w.settings, w.handsOver = [aspects]setting{}, false`, `w.settings = [aspects]setting{}`,
		testsZK("TestAHolderWhoLeftBeforeABackupHandsNothingOverAfterIt")),
	one("zk: a node that was joined in vain is taken away by one try",
		"coord/zk/leave.go", `if err == nil || errors.Is(err, gozk.ErrNoNode) {
			s.roster.discarded`, `if true {
			s.roster.discarded`, testsZK("TestANodeThatMayNotBeTakenAwayEndsNoSession")),
	one("zk: a join that had no answer is made again without a look",
		"coord/zk/join.go", `len(made) > 0 {`, `false && len(made) > 0 {`, conformsZK("01", "reply lost")),
	one("zk: nobody looks for what a lost join leaves behind later",
		"coord/zk/join.go", `j.audit(p)`, `_ = j.audit`, testsZK("TestWhatALostJoinMakesLaterIsTakenAway")),
	one("zk: the node of a lost join stays when a backup brings it back",
		"coord/zk/leave.go", `!j.session.roster.stands(p) ||`, ``, testsZK("TestANodeOfALostJoinThatComesBackIsTakenAway")),
	one("zk: the look after a lost join may be at a server that lags",
		"coord/zk/join.go", `seen, err = s.freshChildren(`, `seen, err = s.children(`, testsZK("TestTheLookAfterALostJoinMakesTheServerCatchUp")),
	one("zk: a try that others were faster than stays in line",
		"coord/zk/join.go", `if j.entry.InVain(ahead) {`, `if false {`, conformsZK("15", "many at once: one at most")),
	one("zk: a token does not count the lives of its directory",
		"coord/zk/place.go", `return driver.Token(born + int64(c.rank()))`, `return driver.Token(int64(c.rank()))`, conformsZK("02", "across a line forgotten and used again")),
	one("zk: a number that no transaction has reached is used",
		"coord/zk/join.go", ` || int64(p.node.Token) > s.zxids.Load()`, ``, testsZK("TestTokensNeverGoBackThoughNumbersRanAhead")),
	{
		Name: "zk: what a lost join has made is neither found nor looked for later",
		Edits: []Edit{
			{"coord/zk/join.go", `len(made) > 0 {`, `false && len(made) > 0 {`},
			{"coord/zk/join.go", `j.audit(p)`, `_ = j.audit`},
		},
		By: scripts,
	},
	one("zk: whoever is told that its own node has gone goes by what is ahead",
		"coord/zk/await.go", `	if a.own.gone {`, `	if false {`, scripts),
	one("zk: whoever waits for a line to begin anew keeps what comes behind it",
		"coord/zk/counter.go", `tries == 0 && j.entry.Waits != nil`, `false && j.entry.Waits != nil`, testsZK("TestWhoWaitsForALineToBeginAnewHoldsNoneBehindIt")),
	one("zk: a number at the end of the counter is used",
		"coord/zk/naming.go", `return seq >= 1<<31-1-lastNumbers || seq < 0 && seq >= -lastNumbers`, `return false`, hunt("zookeeper", "-sim.recipe=mutex")),
	one("zk: a lost join takes whatever bears its name for its own",
		"coord/zk/look.go", `return there && stat.EphemeralOwner == s.identity.Load().ID, err`, `return there && stat != nil, err`, testsZK("TestANodePlantedUnderTheNameOfALostJoinIsNotTakenForIt")),
	one("zk: watches are not set anew after a reconnect",
		"coord/zk/watches.go", `w.settings, w.handsOver = [aspects]setting{}, false`, `w.handsOver = false`, scriptsZK("cut")),
	one("zk: the news of the node ahead overtakes that of the own one",
		"coord/zk/await.go", `if a.own.gone {`, `if a.own.gone && false {`, conformsZK("09", "of a waiter, and then its turn, in one burst of news")),
	one("zk: a holder whose question stalls believes that its node stands",
		"coord/zk/await.go", `if a.holds && len(paths) == 1`, `if false && len(paths) == 1`, alone(conformsZK, "09 removal is noticed", "of a holder whose requests stall")),
	one("zk: the end of a node is trusted though a watch on it may have missed an amendment",
		"coord/zk/watches.go", `w.gone, w.left = true, w.settings[ofData].armed()`, `w.gone, w.left = true, true`, testsZK("TestADeletionAfterAWriteMayBeAnAmendment")),
	one("zk: an amendment to another kind looks like a departure",
		"coord/zk/amend.go", `	if written {
`, `	if false {
`, testsZK("TestAnAmendmentLetsNobodyIn$/^and_nothing")),
	one("zk: a departure forgets where an amendment has put the node",
		"coord/zk/leave.go", `paths := p.allPaths()
`, `paths := p.allPaths()[:1]
`, conformsZK("13", "cancelled, then left")),
	one("zk: a watcher is not told of other data",
		"coord/zk/first.go", `want(o.dir+"/"+c.name, ofData)`, `want(o.dir+"/"+c.name, ofChildren)`, conformsZK("17", "as it changes")),
	one("zk: a watcher of the whole line is not told who comes",
		"coord/zk/first.go", `case len(all) == 0 || o.most > 1:`, `case len(all) == 0:`, conformsZK("17", "the whole line as it changes")),
	one("zk: the session is thought to last as long as was asked for",
		"coord/zk/session.go", `s.ttl.Store(int64(timeout))`, ``, testsZK("TestASessionIsRenewedAsOftenAsWasGranted")),
	one("zk: a session whose timeout was cut goes on",
		"coord/zk/session.go", `case timeout < s.timeout():`, `case false:`, scriptsZK("shorter")),
	one("zk: a session is renewed at a server that is behind it",
		"coord/zk/session.go", `if was.known > 1 {`, `if false {`, testsZK("TestABackupThatIsRestoredBlocksNoLine$/^the_client_has_seen_more_than_the_service_has")),
	one("zk: a session goes on with nodes that left before a backup was restored",
		"coord/zk/session.go", `s.roster.stranger(nodes); found {`, `s.roster.stranger(nodes); found && false {`, scriptsZK("relapsed")),
	one("zk: a session has as many nodes as are asked for",
		"coord/zk/roster.go", `if r.bytes+n > maxPaths {`, `if r.bytes+n > 2*maxPaths {`, testsZK("TestASessionTakesNoMorePathsThanTheServiceSurvives")),
	one("zk: a root of one's own goes when it is idle",
		"coord/zk/dirs.go", `|| !s.service.openToAll && strings`, `|| false && strings`, testsZK("TestARootOfOnesOwnStays")),
	one("zk: a line that a stranger made is trusted",
		"coord/zk/dirs.go", `excess(entry); excess != 0 {`, `excess(entry); excess != 0 && false {`, testsZK("TestALineThatAStrangerMadeIsRefused")),
	one("zk: as many lists are under way as are asked for",
		"coord/zk/lists.go", `return w.open == 0 || w.open+bytes <= windowBytes`, `return true`, testsZK("TestNoMoreListsAreUnderWayThanFit")),
	one("zk: a server is never given more time for its greeting",
		"coord/zk/connect.go", `s.patience(snubs.slow)`, `s.patience(0)`, testsZK("TestASlowGreetingIsWaitedFor")),
	one("zk: a holder whose server hangs up takes its node for removed",
		"coord/zk/await.go", `context.Cause(ctx) == errHungUp`, `false`, testsZK("TestTheEndOfASessionThatIsSlowToShowIsNoRemoval")),
	one("zk: each join has a list of its own",
		"coord/zk/lists.go", `if !busy && len(first) > 0 && !fresh {`, `if len(first) > 0 && !fresh {`, testsZK("TestManyWhoJoinALongLineShareItsLists")),
	one("zk: a session may last a millisecond",
		"coord/zk/internal/wire/conn.go", `if timeout < leastTimeout {`, `if timeout <= 0 {`, testsWire("TestAGreetingThatMakesNoSenseIsRefused")),
	one("zk: an announced length is believed",
		"coord/zk/internal/wire/conn.go", `part := min(n, max(was, 4<<10))`, `part := n`, testsWire("TestLengthsAreNotBelievedBeforeTheBytesAreThere")),
	one("zk: any answer goes to any request",
		"coord/zk/internal/wire/conn.go", `if r.xid == xid && (anyTime || !overtakes) {`, `if r.xid == xid {`, testsWire("TestABadAnswerEndsItsConnection")),
	one("zk: a node by the name of a%2Fa is taken for the line a/a",
		"coord/zk/naming.go", `!strings.Contains(segment, "/") && `, ``, testsZK("TestOnlyWhatEncodesIsDecoded")),
	one("zk: an abandoned session is closed",
		"coord/zk/session.go", `s.end(why) // from now on there is no dialing
	s.hangUp()`, `s.end(why)`, conformsZK("03", "abandoning leaves the nodes to the TTL")),
	one("zk: nobody says which right is missing to look for a node of our own",
		"coord/zk/look.go", `return ours, explainRefusal(err, "looking at", nodePath, "READ", "")`, `return ours, err`, hunt("zookeeper", "-sim.recipe=group", "-sim.hunt=3000")),
	one("zk: what has moved between two tries is taken for removed",
		"coord/zk/inspect.go", `look != nil || !amendedIn(`, `true || !amendedIn(`, testsZK("TestWhatMovesWhileAnOperatorBreaksItIsRemoved")),
	one("zk: a directory that is not shown to us hides all lines",
		"coord/zk/inspect.go", `used, err = true, nil // a n`, `_ = used // a n`, testsZK("TestANeighbourWhoMayCreateInTheLineMakesLinesWithin")),
	one("zk: a memo is written whoever stands in the line",
		"coord/zk/memo.go", `&gozk.CheckVersionRequest{Path: w.at, Version: own}`, `&gozk.CheckVersionRequest{Path: path.Dir(w.at), Version: -1}`,
		conformsZK("21", "not written once the node was removed")),
	one("zk: a holder reads the memo on any session",
		"coord/zk/memo.go", `p.session.recall(ctx, p.Node().Line)`, `p.session.service.Memo(ctx, p.Node().Line)`,
		testsZK("TestAMemoIsNoOlderThanTheHoldUnderWhichItIsRead")),
	one("zk: a late amendment undoes a newer one",
		"coord/zk/amend.go", `conn.Set(now, card, version)`, `conn.Set(now, card, anyVersion)`, testsZK("TestAWriteThatArrivesLateUndoesNothing$/^data$")),
	one("zk: a late amendment to another kind undoes a newer one",
		"coord/zk/amend.go", `		var ops []any
`, `		var ops []any
		version = anyVersion
`,
		testsZK("TestAWriteThatArrivesLateUndoesNothing$/^another_kind,_given_up$")),
	one("zk: an amendment whose first try was made without an answer is refused",
		"coord/zk/amend.go", `if !errors.Is(err, gozk.ErrBadVersion) {`, `if true || !errors.Is(err, gozk.ErrBadVersion) {`,
		testsZK("TestAWriteThatWasMadeWithoutAnAnswerIsMade$/^data$")),
	one("zk: a late memo undoes a newer one",
		"coord/zk/memo.go", `Data: w.value, Version: w.old.version}`, `Data: w.value, Version: anyVersion}`,
		testsZK("TestAWriteThatArrivesLateUndoesNothing$/^a_memo$")),
	one("zk: a late memo undoes a newer one that was made anew",
		"coord/zk/memo.go", `own != anyVersion && (`, `false && (`, testsZK("TestAWriteThatArrivesLateUndoesNothing$/^a_memo_that_went_and_came$")),
	one("zk: a late memo comes after there was to be none",
		"coord/zk/memo.go", `!w.memo.open || `, `true || `, testsZK("TestAWriteThatArrivesLateUndoesNothing$/^the_first_memo,_given_up$")),
	one("zk: a memo is forgotten whenever it was written",
		"coord/zk/memo.go", `for mayWrite := true; ; {`, `for mayWrite := false; ; {`,
		testsZK("TestAWriteThatArrivesLateUndoesNothing$/^no_memo,_by_an_operator$")),
}

// conformsZK runs a scenario of the conformance suite, below the number of its obligation.
func conformsZK(obligation, scenario string) Tests {
	return Tests{Module: ".", Package: "./coord/zk", Run: conformance(obligation, scenario)}
}

// testsZK is a test of the driver's own.
func testsZK(name string) Tests {
	return Tests{Module: ".", Package: "./coord/zk", Run: "^" + name + "$"}
}

// testsWire is a test of the driver's connection.
func testsWire(name string) Tests {
	return Tests{Module: ".", Package: "./coord/zk/internal/wire", Run: "^" + name + "$"}
}
