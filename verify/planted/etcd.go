package planted

import (
	"regexp"
	"strings"
)

// etcd are the bugs of the driver for etcd.
var etcd = []Bug{
	one("etcd: a place that a backup has brought back is taken for the new one",
		"coord/etcd/join.go", `, kv.GetCreateRevision() <= j.since:`, `:`, testsEtcd("TestANodeFromBeforeTheJoinIsNotItsOwn")),
	one("etcd: a hand-off whose stream breaks needs no look",
		"coord/etcd/await.go", `	if a.watches.era() != a.seen.era {`, `	if false {`, testsEtcd("TestWhoIsBroughtBackAheadIsWaitedFor")),
	one("etcd: who had gone before a backup has gone after it",
		"coord/etcd/look.go", `return l.era == era && l.gone >= created`, `return l.gone >= created`, testsEtcd("TestWhoIsBroughtBackAheadIsWaitedFor")),
	{"etcd: the deadline counts from the receipt of a renewal", []Edit{
		{"coord/etcd/session.go", `	s.deadline.Renewed(s.began, s.vouched.lease.Renewed(s.answer(sent, said`, `	s.deadline.Renewed(s.began, s.vouched.lease.Renewed(s.answer(time.Now(), said`},
		{"coord/etcd/session.go", `	s.deadline.Renewed(s.began, s.vouched.lease.Read(s.answer(sent, header)))`, `	s.deadline.Renewed(s.began, s.vouched.lease.Read(s.answer(time.Now(), header)))`},
	}, conformsEtcd("07", "everything takes long")},
	one("etcd: a renewal counts without a read",
		"coord/etcd/session.go", `	s.deadline.Renewed(s.began, s.vouched.lease.Renewed(`, `	s.vouched.lease.Read(s.answer(sent, said.GetHeader()))
	s.deadline.Renewed(s.began, s.vouched.lease.Renewed(`, scriptsEtcd("thaws")),
	one("etcd: a renewal of an earlier term than the read's counts",
		"coord/driver/deadlines/etcd.go", `return l.renewal.Term < l.read.Term`, `return false`, scriptsEtcd("splits")),
	{"etcd: a backup that others have made up for ends no session", []Edit{ // a join and a look each notice it
		{"coord/etcd/join.go", `return j.goesOn(epoch, j.compared)`, `return nil`},
		{"coord/etcd/epoch.go", `s.goesOn(got.Kvs[0].ModRevision, wrote)`, `s.goesOn(wrote, wrote)`},
	}, testsEtcd("TestABackupThatOthersHaveMadeUpForEndsTheSession")},
	one("etcd: what a backup has brought back is not swept",
		"coord/etcd/sweep.go", `if !s.numbers.someReused() {`, `if true || !s.numbers.someReused() {`, scripts),
	one("etcd: a session's own key that was removed stays away",
		"coord/etcd/epoch.go", `	return s.putEpoch(ctx) // the lease is gone`, `	return nil // the lease is gone`, scripts),
	one("etcd: a stray with the number of a place is taken for that place",
		"coord/etcd/naming.go", `if n.keys[number] == key {`, `if n.keys[number] != "" {`, testsEtcd("TestAStrayIsTakenAwayWhoeverHasItsNumber")),
	one("etcd: a value that looks like a kind is one",
		"coord/etcd/naming.go", ` || keyKind != stockKind && strings.HasPrefix(card, amendedHead)`, ``, testsEtcd("TestStockNamesKeepAValueThatLooksLikeAKind")),
	one("etcd: an amendment that may yet be applied counts as refused",
		"coord/etcd/amend.go", `err != nil && !open && gone == 0`, `err != nil && gone == 0`, testsEtcd("TestAnAmendmentThatIsRefusedForCertainSaysSo")),
	one("etcd: a service without space has amended nothing",
		"coord/etcd/amend.go", `if is(err, rpctypes.ErrNoSpace) {`, `if is(err, rpctypes.ErrNoSpace) && p == nil {`, testsEtcd("TestADowngradeThatAFullServiceMadeIsMade")),
	one("etcd: a service without space has put no node",
		"coord/etcd/join.go", `case is(err, rpctypes.ErrNoSpace):`, `case is(err, rpctypes.ErrNoSpace) && j == nil:`, testsEtcd("TestAJoinThatAFullServiceMadeLeavesNothing")),
	one("etcd: a lost join stays while there is no space",
		"coord/etcd/join.go", `return cmp.Or(j.takeForNow(ctx), err)`, `return cmp.Or(error(nil), err)`, testsEtcd("TestALostJoinLetsOthersPassWhileThereIsNoSpace")),
	one("etcd: a memo is forgotten whenever it was written",
		"coord/etcd/memo.go", `"=", got.Kvs[0].GetModRevision())`, `">", 0*got.Kvs[0].GetModRevision())`, testsEtcd("TestAForgetThatIsAppliedLateTakesNoLaterMemo")),
	one("etcd: news after a backup is taken for old",
		"coord/etcd/first.go", `		v.since = min(v.since, int64(now.At)) // the service may have gone back
`, ``, testsEtcd("TestNewsAfterABackupIsHeard")),
	one("etcd: a lease that was granted late is first renewed after a third of the TTL",
		"coord/etcd/session.go", `interval-time.Since(s.began), 0`, `interval, 0`,
		Tests{Module: ".", Package: "./verify/simulation", Run: "TestALeaseThatWasGrantedLateIsRenewedTheSooner"}),
	one("etcd: a join that came again stays for as long as the session",
		"coord/etcd/epoch.go", `		if len(events) > 0 {
			continue
		}`, `		continue`, scripts),
	one("etcd: a session goes on at a lower revision than it was told",
		"coord/etcd/epoch.go", `	if now >= told {`, `	if now >= 0 {`, scripts),
	one("etcd: a guard goes by the key alone",
		"coord/etcd/guard.go", `return isIncarnation(key, created), nil`, `return clientv3.Compare(clientv3.CreateRevision(key), ">", min(created, 0)), nil`, hunt("etcd")),
	one("etcd: a departure goes by the key alone",
		"coord/etcd/look.go", `clientv3.CreateRevision(key), "=", created)`, `clientv3.CreateRevision(key), ">", 0)`,
		conformsEtcd("06", "a second release does not touch the newer node")),
	one("etcd: a lost join may be applied after it was not found",
		"coord/etcd/join.go", `j.moveEpoch(ctx, j.compared)`, `error(nil)`, conformsEtcd("01", "cancelled before it is applied late")),
	one("etcd: a lost join takes an earlier place with its key for its own",
		"coord/etcd/join.go", `max(j.epoch.rev.Load(), j.told.Load())`, `j.epoch.rev.Load()`, testsEtcd("TestALostJoinDoesNotTakeAnEarlierPlaceForItsOwn")),
	one("etcd: a join does not compare the epoch",
		"coord/etcd/join.go", `ifs := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(epoch), "=", j.compared)}`, `ifs := []clientv3.Cmp{}`, conformsEtcd("01", "cancelled before it is applied late")),
	one("etcd: a join forgets its node when somebody has written to it",
		"coord/etcd/join.go", `	case string(kv.GetValue()) != j.value, kv.GetCreateRevision() <= j.since:
		stray := departure{key: j.key, created: kv.GetCreateRevision()}
		return j.d.retry(ctx, "take away what is not of this join", func(ctx context.Context) error { return j.leaving.try(ctx, stray) })
`, `	case string(kv.GetValue()) != j.value, kv.GetCreateRevision() <= j.since:
		j.takeNumber(j.node.Kind)
`, conformsEtcd("20", "to a node whose join has no answer yet")),
	one("etcd: a try puts its key into a busy line",
		"coord/etcd/join.go", `for _, r := range keys.ranges(j.view) {`, `for _, r := range keys.ranges(j.view)[:0] {`, conformsEtcd("15", "a busy line is never joined")),
	one("etcd: a number is given back by each of several departures",
		"coord/etcd/leave.go", `p.free.Do(p.stoodDown)`, `p.stoodDown()`, conformsEtcd("06", "a second release does not touch the newer node")),
	{"etcd: a session goes on with a lease that is somebody else's by now", []Edit{
		{"coord/etcd/session.go", `if err == nil && s.deadline.Passed() {`, `if err == nil && false {`},
		{"coord/etcd/epoch.go", `wrote > 0 && s.deadline.Passed()`, `false`},
	}, testsEtcd("TestNeighbourWhoIsGrantedALeaseOfTheSameNumberKeepsNobodysPlace")},
	one("etcd: an amended key has no lease",
		"coord/etcd/amend.go", `clientv3.OpPut(p.key, value, clientv3.WithLease(p.lease)),`, `clientv3.OpPut(p.key, value),`, conformsEtcd("12", "one in the middle is amended and dies")),
	one("etcd: a late amendment undoes a newer one",
		"coord/etcd/amend.go", `clientv3.Compare(clientv3.ModRevision(p.key), "=", p.modified),`, ``, testsEtcd("TestLateAmendmentUndoesNothing")),
	one("etcd: nothing is read when the stream of events had to be opened anew",
		"coord/etcd/listen.go", `e.open > 0 && e.open != e.covered`, `e.open > 0 && e.covered == 0`, conformsEtcd("04", "the node leaves while the link is cut")),
	one("etcd: word of a former node with the same key counts",
		"coord/etcd/listen.go", `return ev.rev <= e.since`, `return false`, testsEtcd("TestWordOfTheFormerNodeIsNoRemoval")),
	one("etcd: the end of the node right ahead lets in, whoever else is ahead",
		"coord/etcd/await.go", `b.only || b.nearest && a.ours.isFirst(b.created, a.seen.era)`, `b.nearest`, hunt("etcd")),
	one("etcd: a reader that sees no writer takes all ahead of it for gone",
		"coord/etcd/look.go", `case len(p.sight.Ignore) > 0: // then`, `case false: // then`, testsEtcd("TestAReaderTellsNothingOfThoseAhead")),
	{"etcd: the own key is not looked at before entering", []Edit{
		{"coord/etcd/await.go", `	if incarnation(answer[0], a.created) == nil {
		return nil, a.removed(ctx, at)
	}
	return a.cleared(ctx)`, `	_, _ = at, answer
	return a.cleared(ctx)`},
		{"coord/etcd/await.go", `	if incarnation(answer[0], a.created) == nil {
		return nil, a.removed(ctx, at)
	}
	if a.self != nil {`, `	if a.self != nil {`},
	}, conformsEtcd("09", "of a waiter whose turn it is at the same time")},
	one("etcd: the end of the session is taken for a removal",
		"coord/etcd/epoch.go", `	if err := s.check(ctx, rev); err != nil {
		return err
	}
	if`, `	if`, alone(conformsEtcd, "03 a dead session's nodes go", "the end of a session is not taken for a removal")),
	one("etcd: a revoked lease is noticed when it is to be renewed",
		"coord/etcd/driver.go", `s.life.Go(s.watchOver)`, `_ = s.watchOver`, testsEtcd("TestRevokedLeaseIsNoticedAtOnce")),
	one("etcd: an amendment wakes nobody",
		"coord/etcd/watches.go", `kv := e.GetKv()
`, `kv := e.GetKv()
		if e.GetType() == mvccpb.Event_PUT {
			continue
		}
`, conformsEtcd("13", "another kind wakes those behind")),
	one("etcd: a watch that was refused once stays refused",
		"coord/etcd/watches.go", `	ws.refused = append(ws.refused, w)
`, ``, scriptsEtcd("refused")),
	one("etcd: a watch that was refused waits until another is allowed",
		"coord/etcd/watches.go", `		ws.askAgain(staleAtOnce)
`, ``, testsEtcd("TestPermissionAwayForAMoment")),
	one("etcd: a release that is refused gives up",
		"coord/etcd/leave.go", `		return err
	}, func(error) bool { return false })`, `		if errors.Is(err, driver.ErrDenied) {
			return nil
		}
		return err
	}, func(error) bool { return false })`, scriptsEtcd("refused")),
	one("etcd: a watch goes by the number that was asked for",
		"coord/etcd/watches.go", `w.id, w.since = said.GetWatchId(), ws.spoke`, `w.id, w.since = r.number, ws.spoke`, testsEtcd("TestThroughGRPCProxyOfEtcd")),
	one("etcd: a join puts its key over what is there",
		"coord/etcd/join.go", `	ifs = append(ifs, isIncarnation(j.key, 0))
`, ``, scriptsEtcd("resent")),
	one("etcd: a node is removed wherever its ID leads",
		"coord/etcd/naming.go", `ok && strings.HasPrefix(key, l.line(line))`, `ok`, testsEtcd("TestBreakStaysInItsLine")),
	one("etcd: a lease of no time is taken for a session",
		"coord/etcd/driver.go", ` || granted.GetTTL() <= 0`, ``, testsEtcd("TestALeaseOfNoTimeIsNotRenewedInAStorm")),
	one("etcd: a watch that is used again keeps those after it",
		"coord/etcd/watches.go", `!ws.unheard[n].since.After(then)`, `!ws.unheard[n].watch.unheard.After(then)`, testsEtcd("TestAHotLineKeepsNoOtherWatches")),
	one("etcd: a session goes on with a service that has forgotten what it told",
		"coord/etcd/epoch.go", `	s.told.Saw(now)
	if now >= told {`, `	if now >= 0 {`, testsEtcd("TestServiceThatComesBackOlderEndsTheSession")),
	one("etcd: a lease that is revoked while nobody hears is not asked for",
		"coord/etcd/epoch.go", `		since := v.opened
`, `		since := int64(0)
`, testsEtcd("TestLeaseRevokedUnheardIsNoticed")),
	one("etcd: what is refused is asked for again at once",
		"coord/etcd/retry.go", `driverkit.Jitter(driverkit.Pause(tries))`, `0`, testsEtcd("TestRefusalsAreFollowedByAPause")),
	one("etcd: large values in one line hide all lines",
		"coord/etcd/inspect.go", `if isTooLarge(err) && limit > 1 {`, `if false {`, testsEtcd("TestALineOfLargeValuesHidesNoOther")),
	one("etcd: a key that does not count hides those ahead of it",
		"coord/etcd/look.go", `g.short = g.short || hidden && v.sight.Nearest < driver.All`, `_ = hidden`, conformsEtcd("10", "foreign children do not count")),
	one("etcd: a holder whose question stalls believes that its node stands",
		"coord/etcd/await.go", `err = driverkit.Doubt(ctx, p.life, func(ctx context.Context) error { return p.removed(ctx, rev) })`, `err = p.removed(ctx, rev)`, alone(conformsEtcd, "09 removal is noticed", "of a holder whose requests stall")),
	one("etcd: a watcher of the whole line is told of the first node only",
		"coord/etcd/first.go", `if most == 1 && len(seen.Nodes) == 1 {`, `if len(seen.Nodes) > 0 {`, conformsEtcd("17", "the whole line as it changes")),
	{"etcd: a join that tries again keeps its place meanwhile", []Edit{
		{"coord/etcd/join.go", `	j.joins.exit()
	err := driverkit.Sleep(`, `	err := driverkit.Sleep(`},
		{"coord/etcd/join.go", `	j.joins <- struct{}{} // whoever`, `	// whoever`},
	}, testsEtcd("TestWhoOccupiesTheKeysOfOneLineKeepsNobodyFromAnother")},
	one("etcd: a memo is written whoever stands in the line",
		"coord/etcd/memo.go", `[]clientv3.Cmp{isIncarnation(p.key, p.created), `, `[]clientv3.Cmp{`, conformsEtcd("21", "not written once the node was removed")),
	one("etcd: a memo's try that is applied late undoes a later one",
		"coord/etcd/memo.go", `"<", since+1)`, `"<", since+1<<40)`, conformsEtcd("21", "a try that is applied late undoes nothing")),
	one("etcd: a memo's try that is applied late brings back a memo that was taken away",
		"coord/etcd/memo.go", `memo == nil && p.memoOpen`, `memo == nil && p.memoOpen && false`, conformsEtcd("21", "a try that is applied late undoes nothing")),
}

// conformsEtcd runs a scenario of the conformance suite, below the number of its obligation.
func conformsEtcd(obligation, scenario string) Tests {
	return Tests{Module: "coord/etcd", Package: ".", Run: conformance(obligation, scenario)}
}

// testsEtcd is a test of the driver's own.
func testsEtcd(name string) Tests {
	return Tests{Module: "coord/etcd", Package: ".", Run: "^" + name + "$"}
}

func conformance(obligation, scenario string) string {
	return "^TestConformance$/^" + obligation + "/" + named(scenario)
}

// alone is a scenario that runs when all others are over.
func alone(conforms func(obligation, scenario string) Tests, obligation, scenario string) Tests {
	by := conforms("", "")
	by.Run = "^TestConformance$/^alone$/" + named(obligation) + "/" + named(scenario)
	return by
}

func named(test string) string {
	return "^" + regexp.QuoteMeta(strings.ReplaceAll(test, " ", "_")) + "$"
}
