package planted

// register are the bugs of the driver for whatever can compare and swap, and of its stores.
var register = []Bug{
	one("register: a line of a newer version is read as if it were ours",
		"coord/register/line.go", `	if r.byte() != lineFormat {
`, `	if r.byte() < lineFormat {
`, testsRegister("TestWhatAnotherVersionHasWrittenIsRefused")),
	one("register: without a clock, who is next looks once a TTL",
		"coord/register/vigil.go", `step = min(cmp.Or(s.usual, s.ttl)/4, again)`, `step = min(cmp.Or(again, s.usual, s.ttl), again)`, testsRegister("TestADeathIsNoticedInTimeWithoutAClock")),
	one("register: who rests believes in its session for as long as that stands",
		"coord/register/session.go", `		s.stood(rest)
`, `		if s.stood(rest); rest {
			s.deadline.Renewed(sent, restTTLs*s.d.cfg.ttl)
		}
`, hunt("register")),
	one("register: who rises does not hear what was told meanwhile",
		"coord/register/await.go", `	removed, alarmed := p.removed > 0, p.alarms > p.answered`, `	removed, alarmed := false, false`, hunt("register", "-sim.recipe=together", "-sim.hunt=1500")),
	one("register: who waits and locks something else goes on resting",
		"coord/register/rest.go", `if s.awaiting == 0 || s.awaiting < len(s.places) {`, `if s.awaiting == 0 {`, testsRegister("TestWhoRestsMayLockSomethingElse")),
	one("register: a session that rests is never called",
		"coord/register/rest.go", `if !ok || !h.rests() {`, `if !ok || h.called.IsZero() {`, testsRegister("TestWhoDiesAtRestStopsNobodyForLong")),
	one("register: only the next one watches who is first in line",
		"coord/register/await.go", `			head.is(poll.head)
`, ``, testsRegister("TestWhoDiesAtRestStopsNobodyForLong")),
	one("register: who is called hears nothing of it",
		"coord/register/session.go", `	case what == showYourself:
		s.stir.Ring()
`, `	case what == showYourself:
`, testsRegister("TestWhoHearsThatItIsCalledRenewsItselfAtOnce")),
	one("register: where no note is lost unsaid, who waits is renewed all the same",
		"coord/register/rest.go", `if !s.d.sure || s.d.mute.Load()`, `if true || !s.d.sure || s.d.mute.Load()`, testsRegister("TestCandidatesThatWaitAskForLittle")),
	one("register: who is called, and has not heard it, does not see it either",
		"coord/register/rest.go", `h.called.IsZero() {
		s.stir.Ring()`, `h.called.IsZero() {
		_ = h`, testsRegister("TestWhoDoesNotHearThatItIsCalledKeepsItsPlace")),
	one("register: who is new calls the one ahead of it, whoever that is",
		"coord/register/await.go", `(poll.looked || !s.d.sure)`, `(true || !s.d.sure)`, testsRegister("TestWhoIsNewCallsNobodyWhoIsNotNext")),
	one("register: who could be beside the first in line does not call the one between them",
		"coord/register/look.go", `near = len(rules.For`, `near = false && len(rules.For`, testsRegister("TestReadersBehindAWriterThatDiedAtRest")),
	one("register: who was called looks as dead as before",
		"coord/register/rest.go", `h.called, h.at = h.usual, 0, it.Version, time.Now()`, `h.called, h.at = h.usual, 0, it.Version, h.at`, testsRegister("TestWhoMayAllBeNextAreNotCalledByEachOfThem")),
	one("register: each who may be next calls all the others",
		"coord/register/vigil.go", `(still < h.usual || time.Since(s.called) < h.usual)`, `(false || time.Since(s.called) < h.usual)`, testsRegister("TestWhoMayAllBeNextAreNotCalledByEachOfThem")),
	one("register: who looks on trusts a session that rests for as long as that stands",
		"coord/register/vigil.go", `	if h.rests() { // it may`, `	if false && h.rests() { // it may`, testsRegister("TestWhoLooksOnSeesThatWhoRestedIsDead")),
	one("register: whoever is in doubt counts anew with each look",
		"coord/register/await.go", `p.s.d.unanswered() - time.Since(p.doubted)`, `p.s.d.unanswered()`, testsRegister("TestWhoIsInDoubtStopsInTimeHoweverOftenItLooks")),
	one("register: only who has seen a line empty for an hour deletes it",
		"coord/register/sweep.go", `case l.age > oldAtLeast:`, `case false:`, testsRegister("TestALineThatIsLongEmptyIsDeletedByWhoHasJustCome")),
	one("register: a line is deleted by the store's clock though the epoch was raised before it was old",
		"coord/register/sweep.go", `l.epoch < now && l.age-it.Age > oldAtLeast`, `l.epoch < now`, testsRegister("TestTokensRiseThoughTheClockIsSetAhead")),
	one("register: a look for a removal that was broken off is not taken up again",
		"coord/register/await.go", `			p.stale = true
		}
		p.mu.Unlock()`, `		}
		p.mu.Unlock()`, testsRegister("TestWhoIsInDoubtStopsInTimeWhateverElseItHears")),
	one("register: a list without an end is kept if all in it rest",
		"coord/register/sweep.go", `		s.rest = nil
`, ``, testsRegister("TestASweeperKeepsNothingOfAListOfSleepersWithoutAnEnd")),
	one("driver: a name on a card is read at any length",
		"coord/driver/node.go", `return o.Bounded(), nonEmpty(data)`, `return o, nonEmpty(data)`,
		Tests{Module: "cmd/turnwise", Package: "./internal/status", Run: "^TestAHoldersNameFillsNoLog$"}),
	one("register: a name in a line is read at any length",
		"coord/register/line.go", `o = o.Bounded()
	return &o`, `return &o`, testsRegister("TestANameIsNoLongerThanWeWriteOne")),
	one("register: a name in a line is kept at any length",
		"coord/register/line.go", `if len(text) <= mostOwner {`, `if true {`, testsRegister("TestANameIsNoLongerThanWeWriteOne")),
	one("register: a time in a line is read however far away it is",
		"coord/register/line.go", `		d.Owner = d.Owner.Bounded()
`, ``, testsRegister("TestATimeThatNobodyCanWriteDownIsNone")),
	one("register: what is put aside has a number that can be guessed",
		"coord/register/place.go", `secret := newSecret()`, `secret := uint64(0)`, testsRegister("TestWhoWritesToOneLineIsShownNoDataOfOthers")),
	one("driver: a card of a newer version is somebody's data",
		"coord/driver/node.go", `	if isNewerCard(b) {
`, `	if false && isNewerCard(b) {
`, Tests{Module: ".", Package: "./coord/driver", Run: "^TestACardOfANewerVersionIsNoData$"}),
	one("register: a watcher of the whole line is told of the first node only",
		"coord/register/clerk.go", `d.watched&allWatched != 0 && (`, `false && (`, testsRegister("TestWhoWatchesTheWholeLineIsToldAtOnce")),
	one("register: who hears that its session went back takes its time",
		"coord/register/session.go", `has gone back: %v", s.id, ErrForgot)`, `has gone back: %w", s.id, ErrForgot)`, testsRegister("TestNobodyIsToldThatAllWaitWhereTheyDoNot")),
	one("register: nothing is written after a swap whose outcome is open",
		"coord/register/clerk.go", `doubt := c.inDoubt(k)`, `doubt := c.inDoubt(k) && false`, conformsRegister("01", "cancelled before it is applied late")),
	one("register: a version counts",
		"coord/register/clerk.go", `		s.Next = NewVersion()
`, `		s.Next = Version{1, byte(d.seq), byte(d.seq >> 8), byte(d.seq >> 16)}
`, hunt("register")),
	one("register: a lost race is followed by a pause",
		"coord/register/clerk.go", `			losses++
`, `			losses++
			time.Sleep(time.Duration(losses) * 100 * time.Microsecond)
`, testsRegister("TestNobodyBacksOff")),
	one("register: a session is ended, and not told",
		"coord/register/session.go", `Swap{Key: id.key(), Old: version, Notes: tell, By: d.self}`, `Swap{Key: id.key(), Old: version, Notes: tell[:0], By: d.self}`,
		testsRegister("TestASessionThatIsEndedHearsOfItAtOnce")),
	one("register: a removed node's owner is not told",
		"coord/register/news.go", `if g.why == removed {`, `if g.why == removed && false {`,
		Tests{Module: ".", Package: "./coord/register/storetest", Run: "^TestDriverOnMemory$/^alone$/" + named("09 removal is noticed") + "/" + named("of a holder whose requests stall")}),
	one("register: whoever waited for one that has gone has its turn",
		"coord/register/news.go", `is.woken, is.free = q.lastGone || q.tells(kind), q.standing == 0`, `is.woken, is.free = q.lastGone, true`, conformsRegister("12", "one in the middle gives up")),
	one("register: a reader's turn comes beside a writer",
		"coord/register/news.go", `is.woken, is.free = q.otherGone, q.others == 0`, `is.woken, is.free = q.otherGone, q.otherGone`, testsRegister("TestNewsOfARandomLine")),
	one("register: a writer that has become a reader wakes nobody",
		"coord/register/draft.go", `			d.gone = append(d.gone, loss{n, d.members[n.member].id, amended, kind})
`, ``, testsRegister("TestNewsOfARandomLine")),
	one("register: of many permits, who is next but one is not told",
		"coord/register/news.go", `		return q.lastGone
`, `		return false
`, testsRegister("TestNoWakeUpIsLostAmongMany")),
	one("register: a turn is told before the swap",
		"coord/register/clerk.go", `	cur, err := c.d.store.Swap(ctx, s)
`, `	for to, all := range told {
		if s := c.d.session(to.id); s != nil {
			s.heed(c.name, d.seq, all)
		}
	}
	cur, err := c.d.store.Swap(ctx, s)
`, testsRegister("TestNobodyIsLetInBeforeTheSwap")),
	one("register: a line that is made anew begins with the first epoch",
		"coord/register/clerk.go", `c.draft(k, batch, epoch)`, `c.draft(k, batch, min(epoch, 1))`, testsRegister("TestTokensRiseAlsoWhenALineWasDeleted")),
	one("register: anybody makes the epoch who may make registers",
		"coord/register/memory.go", `d.foundEpoch(rctx)`, `error(nil)`, testsRegister("TestNobodyMakesTheEpochAfterTheFirstSession")),
	one("register: one line raises the epoch as far as it says",
		"coord/register/epoch.go", `n-now > mostPassed || n >= maxToken>>tokenBits`, `false`, testsRegister("TestWhoWritesToOneLineUsesUpNoTokensOfOthers")),
	one("register: a line is deleted, and the epoch stays",
		"coord/register/remains.go", `d.passEpoch(l.passing())`, `d.passEpoch(0)`, testsRegister("TestTokensRiseAlsoWhenALineWasDeleted")),
	one("register: a line is deleted as soon as it is empty",
		"coord/register/remains.go", `lateAtMost = time.Hour`, `lateAtMost = time.Second`, testsRegister("TestALineStaysForAnHourWhenItIsEmpty")),
	one("register: a line with a memo is deleted",
		"coord/register/remains.go", `case len(l.value) == 0:`, `default:`, testsRegister("TestALineWithAMemoIsNotDeleted")),
	one("register: the deadline counts from the receipt of a renewal",
		"coord/register/session.go", `		s.version = version
		clear(s.tries)
		s.renewed(sent)
`, `		s.version = version
		clear(s.tries)
		s.renewed(time.Now())
`, conformsRegister("07", "replies arrive late")),
	one("register: the clocks are believed without a look of one's own",
		"coord/driver/deadlines/registers.go", `max(Silence(ttl)-(looked-s.First), ttl-(looked-s.Since), 0)`, `max(ttl-(looked-s.Since), 0)`, testsRegister("TestWhenASessionIsTakenForDead")),
	one("register: samples of the store's clock are not compared",
		"coord/driver/deadlines/registers.go", `if set || next.Answered`, `if set && i < 0 || next.Answered`, testsRegister("TestWhenASessionIsTakenForDead")),
	one("register: the store's clock is not looked at by renewals",
		"coord/register/clock.go", `c.samples.Add(`, `new(deadlines.Samples).Add(`, testsRegister("TestWhenASessionIsTakenForDead")),
	one("register: a join that took long does not ask for its session",
		"coord/register/join.go", `if !w.open && took < min(4*usual, s.d.cfg.ttl/20)+10*time.Millisecond {`, `if took >= 0 {`, testsRegister("TestAJoinThatTookLongMakesSureOfItsSession")),
	one("register: sessions go on when the store has forgotten",
		"coord/register/memory.go", `	for _, s := range d.allSessions() {
		s.life.End(d.openly(err))
	}
`, ``, testsRegister("TestNobodyIsGrantedUntilAllHaveStoppedWhenAStoreForgets")),
	one("register: the next one is granted at once when the store has forgotten",
		"coord/register/memory.go", `if m.For != Forever {`, `if false {`, testsRegister("TestWhoeverComesAfterAStoreHasForgottenWaits")),
	one("register: a line that is missing is empty",
		"coord/register/clerk.go", `return !c.stood.IsZero() && `, `return false && !c.stood.IsZero() && `, testsRegister("TestALineThatIsMissingIsNotTakenForAnEmptyOne")),
	one("register: a line that goes back is believed",
		"coord/register/clerk.go", `l.seq < asked.seen`, `l.seq < asked.seen && false`, testsRegister("TestALineThatGoesBackGrantsNobodyUntilTheLongestTTLHasPassed")),
	one("register: a store that goes back is believed",
		"coord/register/session.go", `	was, ok := s.tries[cur.Version]
	if !ok {`, `	was, ok := s.tries[cur.Version]
	if was = sent; !ok && false {`, testsRegister("TestAStoreThatGoesBackEndsAllSessions")),
	one("register: a sweeper's register that is none keeps everybody from sweeping",
		"coord/register/sweep.go", `			h, ok := parseHeartbeat(it.Value) // one`, `			h, ok := parseHeartbeat(it.Value)
			if !ok {
				return false, nil
			} // one`, testsRegister("TestASweeperThatIsNoneIsReplaced")),
	one("register: a sweeper that is gone is awaited by each anew",
		"coord/register/sweep.go", `max(s.d.clock.own(sent)-s.other.still.First, age)`, `max(s.d.clock.own(sent)-s.other.still.First, min(age, 0))`,
		testsRegister("TestASweeperIsFollowedWhereAllLiveForAMoment")),
	one("register: a sweeper's register that cannot be read keeps everybody from sweeping",
		"coord/register/sweep.go", `if it.Version == unreadable {`, `if it.Version == unreadable && false {`, testsRegister("TestASweeperThatCannotBeReadIsNotWaitedFor")),
	one("register: what cannot be done to one register ends a sweep",
		"coord/register/chores.go", `case ctx.Err() != nil || errors.Is(err, ErrForgot):`, `case err != nil && !errors.Is(err, driver.ErrDenied):`,
		testsRegister("TestWhatCannotBeSweptKeepsNobodyFromSweepingTheRest")),
	one("register: a sweep waits for a register that cannot be swapped",
		"coord/register/chores.go", `context.WithTimeout(ctx, mostChore*d.timeout)`, `context.WithCancel(ctx)`,
		testsRegister("TestWhatCannotBeSweptKeepsNobodyFromSweepingTheRest")),
	one("register: what fails again and again is tried in each sweep",
		"coord/register/chores.go", `|| again && began.Before(c.again) {`, `|| again && began.Before(c.again) && false {`,
		testsRegister("TestWhatCannotBeSweptKeepsNobodyFromSweepingTheRest")),
	one("register: who cannot do what nobody can leaves the sweeping to others each time",
		"coord/register/sweep.go", `(t.fresh || time.Since(s.gaveWay) > lateAtMost)`, `(t.fresh || time.Since(s.gaveWay) >= 0)`,
		testsRegister("TestWhatCannotBeSweptKeepsNobodyFromSweepingTheRest")),
	one("register: a session that a list lacks is over",
		"coord/register/remains.go", `r.stands[id] = !over[id]`, `r.stands[id] = false`, testsRegister("TestAListThatLacksASessionBuriesNobody")),
	one("register: data that a line names is asked for, however much of it there is not",
		"coord/register/show.go", `if a.lost >= mostLost {`, `if a.lost >= mostLost && false {`, testsRegister("TestDataThatIsNotThereCostsAReaderLittle")),
	one("register: data is read for which there is no room",
		"coord/register/show.go", `n.aside > 0 && !room.IsFull()`, `n.aside > 0`, testsRegister("TestDataForWhichThereIsNoRoomIsNotRead")),
	one("register: an amendment that changes nothing asks nobody",
		"coord/register/amend.go", `if me = n; !t.fresh {`, `if me = n; false {`, testsRegister("TestAnAmendmentThatChangesNothingAsksTheStore")),
	one("register: a watch's own doubt ends its look",
		"coord/register/await.go", `		select {
		case <-p.bell: // else our own doubt would end the look that it asks for
		default:
		}
`, ``, testsRegister("TestAHolderLooksByItself")),
	one("register: what was told of a join's first try counts for the next",
		"coord/register/join.go", `if p.turn <= p.seen {`, `if false {`, testsRegister("TestWhatWasToldOfAFirstTryIsNotAboutTheNext")),
	one("register: a sweep goes by what was known of the line",
		"coord/register/clerk.go", `over[d.members[n.member].id] }) && !t.fresh {`, `over[d.members[n.member].id] }) && !t.fresh && false {`, testsRegister("TestTheSweeperLooksBeforeItSaysThatNobodyDeadIsThere")),
	one("register: a watch goes by what was known of the line",
		"coord/register/first.go", `case !t.fresh: // it may have`, `case false: // it may have`, testsRegister("TestALineIsWatchedOnWhenItsRegisterHasBeenDeleted")),
	one("register: a session that has ended joins a line",
		"coord/register/clerk.go", `if w.of != nil && w.of.life.Over() { // since`, `if w.of != nil && w.of.life.Over() && false { // since`, testsRegister("TestASessionThatHasEndedPutsNobodyIntoALine")),
	one("register: what a stranger tells is believed",
		"coord/register/session.go", `case s.d.trusted || s.d.isProven(s.id, n):`, `case true:`, strangers("is no turn")),
	one("register: a stranger's word ends a hold",
		"coord/register/session.go", `			p.hint(n.seq, said.what)
`, `			if p.hint(n.seq, said.what); said.what == youAreGone {
				p.heed(n.seq, said.what)
			}
`, strangers("ends no hold and no session")),
	one("register: a stranger's word ends a session",
		"coord/register/session.go", `		if s.isAbout(said.what) {
			continue
		}
		if p := s.place(said.n, n.line)`, `		if said.what == allOver {
			s.life.End(errEnded)
		}
		if p := s.place(said.n, n.line)`, strangers("ends no hold and no session")),
	one("register: who stands in a line ends sessions",
		"coord/register/session.go", `	case s.d.trusted:
		s.life`, `	case true:
		s.life`, testsRegister("TestWhoStandsInALineCannotEndASession")),
	one("register: a proof is not compared",
		"coord/register/proof.go", `return proof != nil && hmac.Equal(proof, n.proof)`, `return proof != nil && (hmac.Equal(proof, n.proof) || true)`, strangers("is no turn")),
	one("register: a proof by any key counts",
		"coord/register/proof.go", ` || !c.knows(n.sender) {`, ` {`, strangers("is no turn")),
	one("register: a proof counts for all sessions of a driver",
		"coord/register/identity.go", `	h.Write(to[:])
`, ``, testsRegister("TestWhoStandsInTheLineIsBelieved")),
	one("register: a removal is proven before it is applied",
		"coord/register/news.go", `return g.why == removed || g.why == amended })`, `return false })`, testsRegister("TestOnlyWhatIsTrueWithoutTheSwapIsProven")),
	one("register: each hint is followed at once",
		"coord/register/await.go", `p.calm = time.Now().Add(p.s.calm())`, `p.calm = time.Now()`, testsRegister("TestWhoTellsAllTheTimeMakesNobodyLookAllTheTime")),
	one("register: who cannot ask whether he was removed goes on",
		"coord/register/await.go", `		if alarmed {
			return driverkit`, `		if false {
			return driverkit`, testsRegister("TestWhoCannotAskWhetherHeWasRemovedStops")),
	one("register: a turn that is proven counts more than a removal that is not",
		"coord/register/place.go", `if turn && p.alarms > p.answered {`, `if false {`, testsRegister("TestARemovalIsLookedIntoBeforeATurnIsTaken")),
	one("register: a turn that is in doubt is looked into at once",
		"coord/register/place.go", `		turn = false
	}
	if turn && p.shown`, `		turn, stale = false, true
	}
	if turn && p.shown`, testsRegister("TestWhoWasToldOfATurnDoesNotLookAllTheTimeEither")),
	one("register: who is over in one line is over in all",
		"coord/register/clerk.go", `func (c *clerk) prune(over map[sessionID]bool) *wish {
`, `var everywhere = make(map[sessionID]bool)

func (c *clerk) prune(over map[sessionID]bool) *wish {
	for id := range over {
		everywhere[id] = true
	}
	over = everywhere
`, testsRegister("TestWhoStandsInAForgedLineStaysWhereHeStands")),
	one("redis/quorum: a note that is repeated before its swap is applied hides the note",
		"coord/redis/quorum/hearsay.go", `if told.repeats(from, at) {`, `if false {`, Tests{Module: "coord/redis", Package: "./quorum", Run: "^TestANoteThatWasRepeatedIsLookedInto$"}),
	one("redis/quorum: what one acceptor tells and what another does add up, though the texts differ",
		"coord/redis/quorum/hearsay.go", `+string(text[:16]), string(`, `+string(text[:0]), string(`,
		Tests{Module: "coord/redis", Package: "./quorum", Run: "^TestAMajorityMustTellTheSameText$"}),
	one("redis/quorum: a vote counts whatever the roster is",
		"coord/redis/quorum/scripts.go", `~= 'v ' .. ARGV[2] then return 2 end`, `~= 'v ' .. ARGV[2] and false then return 2 end`,
		testsForgetfulQuorum("TestAServerThatWasReplacedVotesWithNobody")),
	one("redis/quorum: a server that comes back votes by what it had",
		"coord/redis/quorum/acceptor.go", `return has && l.since <= m.roster.term`, `return has && l.since > 0`,
		testsForgetfulQuorum("TestAServerThatComesBackIsFilledFirst")),
	one("redis/quorum: a new server keeps what it had",
		"coord/redis/quorum/reform.go", `if err := m.wipe(ctx, filling, floor); err != nil {`, `if err := error(nil); err != nil && floor.count > 0 {`,
		testsForgetfulQuorum("TestANewServerKeepsNothingOfBefore")),
	one("redis/quorum: what was forgotten is made again below what others have",
		"coord/redis/quorum/scripts.go", `if floor and ARGV[3] <= floor then`, `if floor and false and ARGV[3] <= floor then`,
		testsForgetfulQuorum("TestWhatHalfHaveForgottenIsMadeAnewAboveIt")),
	one("redis/quorum: a healed server does not know the floor",
		"coord/redis/quorum/reform.go", `[]string{filling, floor.String()}`, `[]string{filling, ballot{}.String() + floor.String()[:0]}`,
		testsForgetfulQuorum("TestAServerThatIsFilledGetsTheFloor")),
	one("redis/quorum: a healed server votes without what the others know",
		"coord/redis/quorum/reform.go", `	union, floor := unite(dumps)
`, `	union, floor := unite(dumps[:0])
`, testsForgetfulQuorum("TestWhoIsHealedKnowsWhatOneOfTheOthersDoesNot")),
	one("redis/quorum: who wakes has a server vote that was not filled",
		"coord/redis/quorum/scripts.go", `or was < ARGV[5] then return old end`, `or was < '' then return old end`,
		testsForgetfulQuorum("TestWhoWakesTakesNobodyAlongThatIsNotFilled")),
	one("redis/quorum: with a server that is filled counts what did not",
		"coord/redis/quorum/reform.go", `	return slices.ContainsFunc(dumps, func(d dump) bool {
		return d`, `	return slices.ContainsFunc(dumps, func(d dump) bool {
		return false && d`,
		testsForgetfulQuorum("TestAServerThatIsFilledHasNoVoteOfItsOwnInWhatIsOpen")),
	one("redis/quorum: the group goes by a roster of somebody's that cannot go on",
		"coord/redis/quorum/reform.go", `	if err := canBegin(r, next, all); err != nil {`, `	if err := canBegin(r, next, all); err != nil && false {`,
		testsForgetfulQuorum("TestARosterThatCannotGoOnIsNotBegun")),
	one("redis/quorum: that a server is added is never given up",
		"coord/redis/quorum/reform.go", `canBegin(r, is, all) == nil || !is.adds(r) {`, `canBegin(r, is, all) == nil || is.adds(r) || true {`,
		testsForgetfulQuorum("TestAServerIsHealedThoughItWasDecidedToAddAnother")),
	one("redis/quorum: that a server is replaced is given up",
		"coord/redis/quorum/reform.go", `canBegin(r, is, all) == nil || !is.adds(r) {`, `canBegin(r, is, all) == nil {`, testsForgetfulQuorum("TestARosterThatCannotGoOnIsNotBegun")),
	one("redis/quorum: nobody fills a server before a majority votes",
		"coord/redis/quorum/group.go", `if isHalfway(r, all) {`, `if isHalfway(r, all) && r.term == 0 {`,
		testsForgetfulQuorum("TestAMemberThatForgetsWhileAServerIsAddedStopsNobodyForGood")),
	one("redis/quorum: it is not asked whose place another takes",
		"coord/redis/quorum/acceptor.go", `return has && m.roster.term >= l.since`, `return has && l.address != ""`,
		testsForgetfulQuorum("TestAMemberThatForgetsWhileAnotherIsReplacedStopsNobodyForGood")),
	one("redis/quorum: a server is filled from one that may vote by the roster before",
		"coord/redis/quorum/reform.go", `o.wasBefore(r) && (o.roster.term == r.term || move(o) == nil)`, `o.wasBefore(r) && move != nil`,
		testsForgetfulQuorum("TestWhoAServerIsFilledFrom")),
	one("redis/quorum: a server is filled from one too few",
		"coord/redis/quorum/reform.go", `return from, before.majority()`, `return from, before.majority() - 1`, testsForgetfulQuorum("TestWhoAServerIsFilledFrom")),
	one("redis/quorum: a server is filled from one that was not filled itself",
		"coord/redis/quorum/acceptor.go", `return has && m.roster.term >= l.since`, `return has && l.since > 0`, testsForgetfulQuorum("TestWhoAServerIsFilledFrom")),
	one("redis/quorum: what was accepted in the term before was not",
		"coord/redis/quorum/poll.go", `t.again = again`, `t.again = false`, testsForgetfulQuorum("TestARoundOfTwoTermsIsNotInVain")),
	one("redis/quorum: a proposal for one group is one for the next",
		"coord/redis/quorum/propose.go", `if r.group != p.group {`, `if r.group == "" {`, testsForgetfulQuorum("TestAProposalForOneGroupIsNoneForTheNext")),
	one("redis/quorum: what went while one was away is kept for ever",
		"coord/redis/quorum/collect.go", `for key := range open { // `, `for key := range open { break // `, testsForgetfulQuorum("TestWhatTheyDoNotAgreeOnIsForgottenInTheEnd")),
	one("redis/quorum: a founding that was broken off stays so",
		"coord/redis/quorum/group.go", `if r, enrolled := broken(all); r != nil {`, `if r, enrolled := broken(all); r != nil && false {`,
		testsForgetfulQuorum("TestAFoundingThatWasBrokenOffIsEnded")),
	one("redis/quorum: the servers of two groups are taken",
		"coord/redis/quorum/group.go", `len(groups) > 1 {`, `len(groups) > 9 {`, testsForgetfulQuorum("TestServersOfTwoGroupsAreRefused")),
	one("redis/quorum: who listens counts with the group as it was",
		"coord/redis/quorum/hearsay.go", `r.servers() < h.majority(at.term) {`, `r.servers() < min(2, h.majority(at.term)) {`,
		testsForgetfulQuorum("TestWhoListensCountsWithTheGroupAsItIs")),
	one("redis/quorum: votes of two terms tell a note",
		"coord/redis/quorum/hearsay.go", `	if r.at.less(at) { //`, `	if r.at.ballot.less(at.ballot) { //`, testsForgetfulQuorum("TestVotesOfTwoTermsTellNoNote")),
	one("redis/quorum: who does not know of a term counts there as in his own",
		"coord/redis/quorum/listen.go", `r.term == term {`, `r.term > 0 {`, testsForgetfulQuorum("TestWhoDoesNotKnowOfATermBelievesNoNoteOfIt")),
	one("redis/quorum: a swap of an empty register is applied twice",
		"coord/redis/quorum/swap.go", `slices.Contains(now.past, w.next.id)) || w.again`, `false) || false && w.again`,
		testsForgetfulQuorum("TestASwapOfAnEmptyRegisterIsAppliedOnce")),
	one("redis/quorum: two databases of one server are taken for two servers",
		"coord/redis/internal/server/memory.go", `|| m.run != "" && m.run == other.run`, `|| m.run == "" && other.run == ""`,
		testsForgetfulQuorum("TestTwoDatabasesOfOneServerAreRefused")),
	one("redis/quorum: what is open is only so far above what was accepted",
		"coord/redis/quorum/reform.go", `u.accepted.ballot.less(d.kept[key].promised)`, `u.accepted.ballot.next().less(u.promised)`,
		testsForgetfulQuorum("TestAServerThatIsFilledHasNoVoteOfItsOwnInWhatIsOpen")),
	one("redis/quorum: a swap that nobody remembers is applied again",
		"coord/redis/quorum/swap.go", `now.version == w.Old && tried && w.isLost(now)`, `now.version == w.Old && tried && w.isLost(now) && false`,
		testsForgetfulQuorum("TestASwapThatNobodyRemembersIsNotAppliedAgain")),
	one("redis/quorum: two foundings with the same servers are both ended",
		"coord/redis/quorum/group.go", `len(enrolled)+voting == len(m.roster.seats)`, `len(enrolled)+voting > 0`,
		testsForgetfulQuorum("TestTwoFoundingsWithTheSameServersMakeNoTwoGroups")),
	one("redis/quorum: a reform of one group decides for the next",
		"coord/redis/quorum/reform.go", `q.changeIn(ctx, r.group, rosterKey,`, `q.change(ctx, rosterKey,`,
		testsForgetfulQuorum("TestAReformOfOneGroupDecidesNothingForTheNext")),
	one("redis/quorum: a reform takes two databases of one server",
		"coord/redis/quorum/reform.go", `if err := twins(all); err != nil {`, `if err := twins(all[:1]); err != nil {`,
		testsForgetfulQuorum("TestAReformTakesNoServerTwice")),
	one("redis/quorum: one server's last ballot goes to all",
		"coord/redis/quorum/ballot.go", `return b.count < ballotEnd }`, `return b.count < 100*ballotEnd }`,
		testsForgetfulQuorum("TestABallotThatNobodyCanHaveIsNotBelieved")),
	one("redis/quorum: what was only promised is kept for ever",
		"coord/redis/quorum/scripts.go", `if gone(s) or #s == 80 then`, `if gone(s) then`, testsForgetfulQuorum("TestWhatWasOnlyPromisedIsForgotten")),
	one("redis: what a server says is believed",
		"coord/redis/internal/server/dial.go", `mortal{newVetted(conn), `, `mortal{conn, `, liar("coord/redis", ".", "TestAServerThatLiesEndsNoProcess", "a_string_of_half_a_gigabyte")),
	one("mysql: what a server says is believed",
		"coord/mysql/open.go", `	vet(cfg)
`, ``, liar("coord/mysql", ".", "TestAServerThatLiesEndsNoProcess", "sixteen_million_columns")),
	one("postgres: what a server says is believed",
		"coord/postgres/conn.go", `	vet(cc)
`, ``, liar("coord/postgres", ".", "TestAServerThatLiesEndsNoProcess", "a_row_of_a_gigabyte")),
	one("etcd: an answer may have any size",
		"coord/etcd/connect.go", `cfg.MaxCallRecvMsgSize = max(maxAnswer, cfg.MaxCallSendMsgSize)`, `cfg.MaxCallRecvMsgSize = 0`,
		Tests{Module: "coord/etcd", Package: ".", Run: "^TestAnAnswerOfAGigabyteTakesLittleMemory$"}),
	one("memcached: an item may have any size",
		"coord/memcached/wire.go", `if n > maxValue+4<<10 || int(n) > room {`, `if false {`, liar(".", "./coord/memcached", "TestAServerThatLiesTakesLittleMemory", "an_item_of_a_gigabyte")),
	one("register: an epoch may be any number",
		"coord/register/epoch.go", ` && n <= maxToken>>tokenBits`, ``, testsRegister("TestWhatWeCannotHaveWrittenBesideALineIsRefused")),
}

// liar is one lie of a server that lies.
func liar(module, pkg, test, lie string) Tests {
	return Tests{Module: module, Package: pkg, Run: "^" + test + "$/^" + lie + "$"}
}

// strangers is a scenario of the stores' suite, on a store in this process that passes for one that others may reach.
func strangers(scenario string) Tests {
	return Tests{Module: ".", Package: "./coord/register/storetest", Run: "^TestMemoryOfOthers$/^13/" + named(scenario)}
}

// conformsRegister is a scenario of the conformance suite, on a store in this process.
func conformsRegister(obligation, scenario string) Tests {
	return Tests{Module: ".", Package: "./coord/register/storetest", Run: "^TestDriverOnMemory$/^" + obligation + "/" + named(scenario)}
}

// testsRegister is a test of the driver's own.
func testsRegister(name string) Tests {
	return Tests{Module: ".", Package: "./coord/register", Run: "^" + name + "$"}
}
