package planted

import "strings"

// forgets are the bugs about stores that forget.
var forgets = []Bug{
	one("stores: the longest TTL stands where it is forgotten with all else",
		"coord/register/memory.go", `return !kernel && store.Strength().Restart != driver.Forgets`, `return false && !kernel && driver.Forgets > 0`,
		testsRegister("TestANewcomerWaitsForTheLongestTTLThatAnybodyMayHave")),
	one("stores: whoever reckons with another longest TTL is let in",
		"coord/register/memory.go", `case d.bounded:`, `case d.bounded && false:`, testsRegister("TestWhoeverReckonsWithAnotherLongestTTLIsRefused")),
	one("stores: a TTL that nobody reckons with is taken",
		"coord/register/memory.go", `if ttl <= longest ||`, `if ttl > 0 ||`, testsRegister("TestATTLThatNobodyReckonsWithIsRefused")),
	one("memcached: a mark has its date before it stands",
		"coord/memcached/memory.go", `add(s.markKey(), encodeMark(undated,`, `add(s.markKey(), encodeMark(now+2,`,
		testsForgetful("memcached", "TestAMemoryIsNoOlderThanTheServerWasEmptied/the_mark")),
	one("memcached: a connection is used before it is known where it leads",
		"coord/memcached/memory.go", `	if c.known == known {
`, `	if c.known == known || true {
`, testsForgetful("memcached", "TestAClientThatWasAwayDuringARestartReplacesNothing")),
	one("memcached: a server that moves its memory about is taken",
		"coord/memcached/memory.go", `case settings["slab_reassign"] == "yes" &&`, `case settings["slab_reassign"] == "yes" && false &&`,
		testsForgetful("memcached", "TestWhatOpenRefuses")),
	one("memcached: a full server throws away what it is to replace",
		"coord/memcached/wire.go", `return request{verb: "cas", key: key,`, `return request{verb: "set", key: key,`,
		testsForgetful("memcached", "TestAFullServerThrowsNothingAway")),
	one("memcached: a number that the server has given to another's value is believed",
		"coord/memcached/swap.go", `if q.stores() && a[1].sum == q.sum() {`, `if q.stores() {`,
		testsForgetful("memcached", "TestANumberThatIsAnothersIsNotBelieved")),
	one("memcached: a key whose register is about to be made is taken away for its room",
		"coord/memcached/shelf.go", `q.lasts = barFor`, `q.lasts = -barFor`, testsForgetful("memcached", "TestAKeyThatIsTakenAwayForItsRoomIsAnnouncedAgain")),
	one("memcached: what lived for a moment fills the directory",
		"coord/memcached/shelf.go", `if len(barred) >= mostBar {`, `if true {`, testsForgetful("memcached", "TestADirectoryHasRoomAfterManyThatLivedForAMoment")),
	one("redis: a register that the server has thrown away counts as empty",
		"coord/redis/internal/server/scripts.go", `if has(index, KEYS[1]) and not has(index, key) then return false end`, `if true then return false end`,
		testsForgetfulRedis("TestARegisterThatIsMissingIsAForgetting/read")),
	one("redis: an empty text that somebody has put in a line's place is a register that was thrown away",
		"coord/redis/internal/server/scripts.go", `return redis.call('GET', key) == '' end`, `return false end`,
		testsForgetfulRedis("TestAStrangerWhoMaySetOneLineHarmsThatOneAlone/nothing")),
	one("redis: a reservation is believed whatever it says",
		"coord/redis/internal/server/scripts.go", `return us and us >= 0 and us < 9e15 and us or 0`, `return us`,
		testsForgetfulRedis("TestAReservationThatMakesNoSenseIsNone")),
	one("redis: a text that is too short for a register ends a list",
		"coord/redis/list.go", `return err != nil || yield(it), nil`, `return err == nil && yield(it), err`,
		testsForgetfulRedis("TestAStrangerWhoMaySetOneLineHarmsThatOneAlone/little_more_than_a_time")),
	one("redis: it is not noticed that nothing is written to the disk any more",
		"coord/redis/internal/server/scripts.go", `
and string.find(redis.call('INFO', 'persistence'), 'aof_enabled:1\r\n', 1, true)) then return 0 end`, `) then return 0 end`,
		testsForgetfulRedis("TestARestartWithADiskThatWasNotWrittenToForgets")),
	one("redis: a memory that has ended is gone on with",
		"coord/redis/internal/server/memory.go", `err == nil && again &&`, `err == nil && again && false &&`, testsForgetfulRedis("TestARestartWithADiskThatWasNotWrittenToForgets")),
	one("redis: a listing without the index shows nothing",
		"coord/redis/internal/server/scripts.go", `
if not has(KEYS[2], KEYS[1]) then
  redis.call('DEL', KEYS[1])
  return 0
end`, ``, testsForgetfulRedis("TestAListingWithoutTheIndexIsAForgetting")),
	one("stores: what a short wait has seen is lost with it",
		"coord/register/vigil.go", `first && d.suspects(`, `first && false && d.suspects(`, testsRegister("TestShortWaitsGetPastADeadHolder")),
	one("stores: two looks on one machine are enough, however soon",
		"coord/register/suspect.go", `seen && still.Left(asked, h.ttl) == 0:`, `seen && still.Left(asked, h.ttl) >= 0:`, testsRegister("TestATryOnTheSameMachineNeedsNoClock")),
	one("stores: what one machine has seen counts for another",
		"coord/register/suspect.go", `return at.by == now.by && at.up <= now.up && apart`, `return apart`, testsRegister("TestATryOnTheSameMachineNeedsNoClock")),
	one("stores: two machines from one snapshot pass for one",
		"coord/register/suspect.go", `apart.Abs() <= ttl/50`, `apart.Abs() <= 1<<62`, testsRegister("TestTwoMachinesFromOneSnapshotAreTwo")),
	one("stores: two clones that were resumed one after the other pass for one",
		"coord/register/suspect.go", `apart.Abs() <= ttl/50`, `apart.Abs() <= ttl/8`, testsRegister("TestTwoClonesThatWereResumedOneAfterTheOtherAreTwo")),
	one("stores: machines that never come back keep others out of a suspicion",
		"coord/register/suspect.go", `case said.Age < 0 || said.Age >=`, `case false && said.Age >=`, testsRegister("TestMachinesThatNeverComeBackKeepNobodyWaiting")),
	one("register: what anybody has written over a session's register is a backup's",
		"coord/register/session.go", `parseHeartbeat(cur.Value); !is {`, `parseHeartbeat(cur.Value); !is && false {`, testsRegister("TestASessionWritesOverWhatIsNoHeartbeat")),
	one("register: a session that goes before its time was ended by whoever says so",
		"coord/register/session.go", `!s.d.trusted && time.Until(s.Deadline()) > 0:`, `!s.d.trusted && !s.rumour.Load() && time.Until(s.Deadline()) > 0:`,
		testsRegister("TestWhoseSessionGoesBeforeItsTimeIsLetInLater/after_a_word_of_a_stranger")),
	one("register: a session that goes before its time was ended in time",
		"coord/register/session.go", `	case s.d.sure && s.d.presence == nil && `, `	case false && s.d.sure && s.d.presence == nil && `, testsRegister("TestWhoseSessionGoesBeforeItsTimeIsLetInLater")),
	one("register: what is said of the dead is believed as it stands",
		"coord/register/suspect.go", `	case it.Age >= 0:`, `	case false:`, testsRegister("TestWhatAStrangerSaysOfASessionEndsNone")),
	one("kube: what is said of the dead is believed as it stands",
		"coord/register/suspect.go", `	case said.Made > 0:`, `	case false:`, testsForgetful("kube", "TestAStrangerWhoMayGetAndCreateEndsNoHold")),
	one("register: only a request that fails says that the server was away",
		"coord/register/trouble.go", `	return max(at, d.clock.own(runs)), true`, `	return at, true`, testsRegister("TestNobodyEntersOnASessionFromAnOlderDiskThoughNothingFails")),
	one("register: what is not known of the server is taken for well",
		"coord/register/trouble.go", `return !known || at > since`, `return known && at > since`,
		testsRegister("TestNobodyEntersOnASessionFromAnOlderDiskThoughNothingFails")),
	one("kube: without a watch the server is taken for the same",
		"coord/kube/watch.go", `	if first.IsZero() || first.After(s.cut) {
		return first
	}
`, ``, testsForgetful("kube", "TestABackupThatIsPutBackWhileNoWatchIsOpenLetsNobodyIn")),
	one("kube: a watch that is cut at once is asked for again at once",
		"coord/kube/watch.go", `} else if retries.Sleep(ctx, st.begun) != nil {`, `} else if _ = retries; ctx.Err() != nil {`, testsForgetful("kube", "TestWatchesThatAreCutAtOnceHoldUpNothing")),
	one("kube: a watch that ends in time counts as cut",
		"coord/kube/watch.go", `	patience = patience.Truncate(time.Second) // the server counts seconds
	until := time.Now().Add(patience)
`, `	until := time.Now().Add(patience + time.Second)
`, testsForgetful("kube", "TestAWatchThatEndsInTimeIsNoCut")),
	one("kube: a watch that was cut is no news",
		"coord/kube/watch.go", `	if wasCut {`, `	if false {`, testsForgetful("kube", "TestTheServerIsTheSameWhileOneWatchIsOpenAndNoneWasCut")),
	one("register: whoever spoils what is said of the dead keeps them in line",
		"coord/register/suspect.go", `	if !errors.Is(err, driver.ErrDenied) {
		return said, err`, `	if err == nil || !errors.Is(err, driver.ErrDenied) || true {
		return said, err`, testsRegister("TestATryFindsADeadHolderThoughWhatIsSaidOfItIsSpoilt")),
	one("stores: who comes last always takes the place of another, and no suspicion grows old",
		"coord/register/suspect.go", `case said.Age < 0 || said.Age >= deadlines.Silence(ttl):`, `case true:`, testsRegister("TestManyMachinesThatTryLetASuspicionGrowOld")),
	one("stores: a clock that was put right keeps everybody waiting",
		"coord/register/memory.go", `longest/drift-max(m.For, seen)`, `longest/drift-max(m.For, min(m.For, seen))`, testsRegister("TestAClockThatWasPutRightKeepsNobodyForLong")),
	one("stores: what was seen before a restart counts",
		"coord/register/memory.go", `m.For >= 0 && m.For < now.Sub(d.seenSince)`, `m.For >= 0 && m.For < 0`, testsRegister("TestWhatWasSeenBeforeARestartDoesNotCount")),
	one("stores: a reservation of others is asked for all the time",
		"coord/register/clerk.go", `c.giveWay(k, trip)`, `_ = c.giveWay`, testsRegister("TestAReservationOfOthersIsNotAskedForAllTheTime")),
	one("redis: a server that does not answer has kept nothing",
		"coord/redis/internal/server/memory.go", `ok && !isBusy(answer)`, `ok && answer != nil`,
		testsForgetfulRedis("TestARestartWithoutAnAnswerEndsNoMemory")),
	one("redis: a late number of renewals ends the memory that has come since",
		"coord/redis/internal/server/memory.go", `	if m, err := known.Current(); err != nil || m.id != in.id {`, `	m, err := known.Current()
	if in = m; err != nil {`, testsForgetfulRedis("TestARenewalThatIsAnsweredLateEndsNoNewMemory")),
	one("redis: who has seen more than the server's file goes on",
		"coord/redis/internal/server/scripts.go", `renewals(KEYS[3]) < tonumber(ARGV[5])`, `renewals(KEYS[3]) < 0`,
		testsIn("coord/redis", "TestWhoHasSeenMoreThanABackupEndsItsMemory")),
	one("redis: a run tells of the time before itself",
		"coord/redis/internal/server/scripts.go", `now - math.max(since, started)`, `now - since`,
		testsForgetfulRedis("TestARestartFromAnOldFileIsNoOldMemory")),
	one("postgres: a run tells of the time before itself",
		"coord/postgres/statements.go", `greatest(m.since, pg_postmaster_start_time())`, `m.since`, testsIn("coord/postgres", "TestARestartIsOnlyRememberedIfTheDiskIsWaitedFor")),
	one("postgres: a pooler leads to whatever has the table's rows",
		"coord/postgres/store.go", `g.started = known.started.Load()`, `g.started = 0`, testsIn("coord/postgres", "TestAPoolerThatLeadsToACopyIsNoticed")),
	one("postgres: it does not matter that the table or the database was made again or renamed",
		"coord/postgres/statements.go", `AND (SELECT reserved_by FROM {t} WHERE key = ''::bytea)`, `OR false AND (SELECT reserved_by FROM {t} WHERE key = ''::bytea)`,
		testsIn("coord/postgres", "TestATableThatIsRenamedBackLetsNobodyIn")),
	one("postgres: servers that say no name are one",
		"coord/postgres/memory.go", `!g.fsync || m.server == ""`, `!g.fsync`, testsIn("coord/postgres", "TestAServerThatSaysNoNameMayBeAnother")),
	one("mysql: it does not matter when the table was made or renamed",
		"coord/mysql/memory.go", `if row[6] != nil {`, `if row[6] != nil && false {`, testsIn("coord/mysql", "TestATableThatIsRenamedBackLetsNobodyIn")),
	one("mysql: whether the disk is waited for is looked at once",
		"coord/mysql/read.go", ` || integer(row[7]) != known.keeps`, ``, testsIn("coord/mysql", "TestAServerThatNoLongerWaitsForItsDiskIsAnother")),
	one("redis: it does not matter that a dump was read in",
		"coord/redis/internal/server/scripts.go", `'swapdb', 'flushall', 'flushdb', 'restore', 'restore%-asking'`, `'swapdb'`,
		testsForgetfulRedis("TestADumpThatIsReadInLetsNobodyIn")),
	one("file: a snapshot that is mounted in the place of the directory is used at once",
		"coord/file/layout.go", `l.device != is.device`, `l.device == 0`, testsForgetful("file", "TestADirectoryOnAnotherDeviceIsACopy")),
	one("register: what was told before trouble counts after it",
		"coord/register/await.go", `if removed = p.removed > 0; shaken {`, `if removed = p.removed > 0; false {`, testsRegister("TestATurnThatWasToldBeforeAnOlderDiskIsNone")),
	one("register: after trouble a session is taken for what it was",
		"coord/register/rest.go", `!s.rests.Load() && !s.isShaken()`, `!s.rests.Load()`, testsRegister("TestNobodyEntersAfterTroubleOnASessionFromAnOlderDisk")),
	one("storekit: nobody is told that a server was started anew",
		"coord/register/storekit/run.go", `(at - last.began).Abs() < slack`, `slack > 0`, testsIn("coord/mysql", "TestItShowsThatTheServerWasStartedAnew")),
	one("register: trouble while a session is opened counts for nothing",
		"coord/register/driver.go", `if d.hadTrouble(asked) {`, `if d.hadTrouble(asked + 1<<60) {`, testsRegister("TestNobodyEntersOnASessionThatWasOpenedWhileAnOlderDiskCame")),
	one("register: a server whose clock is behind is believed to have been there as long as we have seen it",
		"coord/register/memory.go", `m.For < 0 && at > 0 {`, `m.For < 0 && at < 0 {`, testsRegister("TestAClockThatIsBehindAfterARestartLetsNobodyIn")),
	one("register: what was only looked at for a wish may have been carried out",
		"coord/register/clerk.go", `	return w.underWay || w.open`, `	return true`, testsRegister("TestTriesWhileTheStoreIsAwayLeaveNothing")),
	one("register: renewals that fail are kept for ever",
		"coord/register/session.go", `	s.forgetTries(sent)`, ``, testsRegister("TestARenewalThatFailsForDaysTakesLittleMemory")),
	one("nats: who asks for the memory does not see that the server was started anew",
		"coord/nats/memory.go", `			s.server.IsNamed(c.run)
`, ``, testsIn("coord/nats", "TestItShowsThatTheServerWasStartedAnew")),
	one("redis: who finds that others have seen to the mark since a restart is told nothing",
		"coord/redis/internal/server/scripts.go", `or string.sub(mark, 1, 57) ~= ARGV[1]`, `or string.sub(mark, 1, 16) ~= memory`,
		testsIn("coord/redis", "TestItShowsThatTheServerWasStartedAnew")),
	one("redis: it is no news that the server was started anew",
		"coord/redis/internal/server/memory.go", `s.started.IsNamed(m.run)`, `s.started.IsNamed("")`, testsIn("coord/redis", "TestItShowsThatTheServerWasStartedAnew")),
	one("postgres: it is no news that the server was started anew",
		"coord/postgres/memory.go", `s.server.Began(found.began(), 1)`, `_ = found.began`, testsIn("coord/postgres", "TestItShowsThatTheServerWasStartedAnew")),
	one("nats: it is no news that the server was started anew",
		"coord/nats/memory.go", `	s.server.IsNamed(c.run)
	return nil`, `	return nil`, testsIn("coord/nats", "TestItShowsThatTheServerWasStartedAnew")),
	one("redis/quorum: only who lives for ten minutes collects",
		"coord/redis/quorum/collect.go", `pause := collectSoon;`, `pause := collectEvery;`, Tests{Module: "coord/redis", Package: "./quorum", Run: "^TestAProcessThatLivesForSecondsCollects$"}),
	one("register: only a read or a swap that fails says that the store was away",
		"coord/register/trouble.go", `	err := n.Store.List(ctx, prefix, yield)
	n.d.notice(ctx, err)
`, `	err := n.Store.List(ctx, prefix, yield)
`, testsRegister("TestWhateverHasFailedNobodyEntersOnASessionFromAnOlderDisk")),
	one("register: whatever fails elsewhere, a session is renewed once more before anybody enters",
		"coord/register/rest.go", ` || !s.rests.Load() && s.proven.Load() > int64(s.d.clock.own(began))`, ` || began.IsZero()`, testsRegister("TestRequestsThatAlwaysFailKeepNobodyOut")),
	one("register: who may not renew its session is not told so",
		"coord/register/rest.go", `err != nil && s.asked.After(began) {`, `err != nil && began.IsZero() {`, testsRegister("TestWhoMayNotRenewHisSessionAfterTroubleIsToldSo")),
	one("register: each try calls a session that seems late",
		"coord/register/suspect.go", `if before && time.Since(at)`, `if false && before && time.Since(at)`, testsRegister("TestAWrongClockHasNobodyCalledAgainAndAgain")),
	one("storekit: a connection that is being made is given up with whoever wanted it",
		"coord/register/storekit/pool.go", `	return p.connect(ctx)
`, `	return p.dial(ctx)
`, testsIn("coord/mysql", "TestAConnectionThatIsSlowToBeMadeIsMade")),
	one("storekit: connections that were stuck all stay",
		"coord/register/storekit/pool.go", ` && len(*into) < p.size`, ``, testsIn("coord/register/storekit", "TestConnectionsThatWereStuckAreNoMoreThanThePoolHas")),
	one("postgres: where a connection leads is looked at by whoever wants it",
		"coord/postgres/open.go", `	s.recognizeNew(cfg)
`, ``, testsIn("coord/postgres", "TestAConnectionThatIsSlowToBeMadeIsMade")),
	one("postgres: who reads does not take in how far the log has come",
		"coord/postgres/read.go", `known.reached.Saw(lsn)`, `_ = lsn`, testsIn("coord/postgres", "TestWhoHasReadMoreRecentlyThanADiskIsOldNoticesThat")),
	one("mysql: a run tells of the time before itself",
		"coord/mysql/memory.go", `, v.up())`, `, time.Hour)`, testsIn("coord/mysql", "TestARestartIsOnlyRememberedIfTheDiskIsWaitedFor")),
	one("redis: a server that seems to be started later lets nobody in",
		"coord/redis/internal/server/scripts.go", `uptime_in_seconds:(%-?%d+)`, `uptime_in_seconds:(%d+)`, testsForgetfulRedis("TestAClockThatWasPutRightKeepsNobody")),
	one("redis: a time has as many digits as its year wants",
		"coord/redis/internal/server/scripts.go", `string.format('%016.0f', us)`, `string.format('%.0f', us)`,
		testsForgetfulRedis("TestARegisterIsReadAsItWasWrittenWhateverTheClockSays")),
	one("mysql: a server that seems to be started later has been up for ever",
		"coord/mysql/server.go", `return int64(u)`, `return max(n, int64(u))`, testsIn("coord/mysql", "TestAServerThatSeemsToBeStartedLater")),
	one("kube: a mark that seems to be made later keeps everybody waiting",
		"coord/kube/memory.go", `		return age
	case`, `		return 0
	case`, testsForgetful("kube", "TestAClockThatWasPutRightKeepsNobody")),
	one("nats: a stream that seems to be made later keeps everybody waiting",
		"coord/nats/memory.go", `m.age = info.Now.Sub(info.Created)`, `m.age = max(0, info.Now.Sub(info.Created))`, testsIn("coord/nats", "TestAClockThatWasPutRightKeepsNobody")),
	one("file: what seems to be forgotten later keeps everybody waiting",
		"coord/file/memory.go", `m.For = time.Since(p.since)`, `m.For = max(time.Since(p.since), 0)`, testsForgetful("file", "TestAClockThatWasPutRightKeepsNobody")),
	one("quorum: a young majority passes for an old one",
		"coord/redis/quorum/memory.go", `min(m.since, m.memory.For())`, `m.since`, testsForgetfulQuorum("TestStore/alone/10_a_store_that_forgets_says_so")),
	one("quorum: a group is founded on what another has left",
		"coord/redis/quorum/scripts.go", `'LIMIT', 0, 2) > 1 then return '' end`, `'LIMIT', 0, 2) > 2e9 then return '' end`,
		testsForgetfulQuorum("TestAGroupIsNotFoundedOnRegistersOfAnother")),
	one("quorum: one server of another group ends all sessions",
		"coord/redis/quorum/group.go", `case !q.isSeated():`, `case !q.isSeated() || true:`, testsForgetfulQuorum("TestAServerOfAnotherGroupDisturbsNobody")),
	one("quorum: one server votes under each of its names",
		"coord/redis/quorum/group.go", `err == nil && other.ID() == m.memory.ID() {`, `err == nil && other.ID() == m.memory.ID() && false {`,
		testsForgetfulQuorum("TestANameThatLeadsElsewhereHasNoVoteOfItsOwn")),
	one("quorum: a server that is named twice is taken for two",
		"coord/redis/quorum/group.go", `if err == nil && len(all) < len(q.all) {`, `if false {`, testsForgetfulQuorum("TestOneServerUnderTwoNamesIsRefused")),
	one("quorum: who sees addresses exchanged takes votes away",
		"coord/redis/quorum/acceptor.go", `one.MayComeBack = true`, `one.MayComeBack = false`,
		testsForgetfulQuorum("TestAServerThatWasRestartedBehindAnotherNameGoesOnVoting")),
	one("quorum: what one server tells under two names is believed",
		"coord/redis/quorum/hearsay.go", `r.from[from] = memory`, `r.from[from] = memory + string(rune(from))`, testsForgetfulQuorum("TestANoteCountsOnceForEachServer")),
	one("file: what another boot has left is cleared beside those who use it",
		"coord/file/layout.go", `case !p.alone():`, `case !p.alone() && false:`, testsForgetful("file", "TestAnotherBootIDClearsNothingThatIsInUse")),
	one("file: a copy in the place of the directory is used at once",
		"coord/file/layout.go", `l.inode != 0 && l.inode != is.inode ||`, `l.inode != 0 && st.Size == 0 ||`,
		testsForgetful("file", "TestAHolderNoticesThatABackupWasPutBack")),
	one("file: an heir counts as nobody",
		"coord/file/layout.go", `!free || inherited || err != nil {`, `(!free || inherited || err != nil) && false {`, testsForgetful("file", "TestAnotherBootIDClearsNothingBesideAnHeir")),
}

// testsForgetfulQuorum is a test of coord/redis/quorum.
func testsForgetfulQuorum(name string) Tests {
	t := testsForgetfulRedis(name)
	t.Package = "./quorum"
	return t
}

// testsForgetfulRedis is a test of coord/redis.
func testsForgetfulRedis(name string) Tests {
	t := testsForgetful("redis", name)
	t.Module, t.Package = "coord/redis", "."
	return t
}

// testsForgetful is a test of a store's own, in the root module.
func testsForgetful(store, name string) Tests {
	return Tests{Module: ".", Package: "./coord/" + store, Run: "^" + strings.ReplaceAll(name, "/", "$/^") + "$"}
}
