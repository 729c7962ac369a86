package planted

// testsKube are tests of Kubernetes' store that also run on a fake, so that a bug is noticed on a machine without an API server.
func testsKube(run string) Tests { return Tests{Module: ".", Package: "./coord/kube", Run: run} }

var kube = []Bug{
	one("kube: an update names no object, and brings a deleted one back",
		"coord/kube/lease.go", `Name: s.nameOf(w.Key), UID: at.uid, ResourceVersion`, `Name: s.nameOf(w.Key), ResourceVersion`,
		testsKube("TestALateUpdateBringsNothingBack/fake")),
	one("kube: a deletion goes by the name alone",
		"coord/kube/request.go", `"kind": "DeleteOptions", "preconditions": preconditions,`, `"kind": "DeleteOptions",`,
		testsKube("TestALateDeletionTakesNothingElseAway/fake")),
	one("kube: a deletion goes by the object, whatever it says by now",
		"coord/kube/request.go", `if at.revision != "" {`, `if at.revision == "-" {`, testsKube("TestALateDeletionTakesNothingElseAway/fake")),
	one("kube: a lease that is going is written to",
		"coord/kube/read.go", `case !l.Metadata.Going.IsZero():`, `case false:`, testsKube("TestAWriteToALeaseThatIsGoingIsNotLost")),
	one("kube: the mark goes with what its maker likes",
		"coord/kube/memory.go", `case m.isTied():`, `case false:`, testsKube("TestAMarkThatAStrangerMadeIsTiedToNothing")),
	one("kube: nobody is told that the server has thrown notes away",
		"coord/kube/watch.go", `		w.tell(nil)
	}
	st, err`, `	}
	st, err`, testsKube("TestWhatTheServerHasThrownAwayIsSaidToBeLost")),
	one("kube: a watch that was cut goes on from now",
		"coord/kube/watch.go", `if w.revision == "" || w.memory != known {`, `if w.revision == "" || w.memory != known || w.locate(ctx, known) != nil {`,
		testsKube("TestAWatchThatIsCutLosesNothing")),
	one("kube: a watch begins at any revision",
		"coord/kube/watch.go", `"resourceVersion": {w.revision}, "watch"`, `"watch"`, testsKube("TestAWatchThatIsCutLosesNothing")),
	one("kube: notes that do not fit are not told at all",
		"coord/kube/lease.go", `		return nil, true
	}`, `		return nil, false
	}`, testsKube("TestNotesThatAreTooManyAreSaidToBeLost")),
	one("kube: a write may be older than what was seen",
		"coord/kube/memory.go", `if n < least {`, `if n < least && false {`, testsKube("TestWhoHasSeenMoreThanTheBackupNotices/as_it_was")),
	one("kube: a lease may be older than what was seen of it",
		"coord/kube/read.go", `if at.uid == before.uid && isEarlier(`, `if at.uid == before.uid && false && isEarlier(`,
		testsKube("TestWhoHasSeenMoreThanTheBackupNotices/with_raised_revisions")),
	one("kube: the mark of a memory that is over stays",
		"coord/kube/memory.go", `last.uid == uid && last.wentBack.Load():`, `last.uid == uid && last.wentBack.Load() && false:`,
		testsKube("TestWhoHasSeenMoreThanTheBackupNotices/as_it_was")),
	one("kube: a copy of a lease is a register",
		"coord/kube/list.go", `case l.Metadata.Name != s.nameOf(it.Key):`, `case it.Key == "":`, testsKube("TestACopyOfALeaseIsNoRegister/fake")),
	one("kube: a token goes anywhere in clear",
		"coord/kube/access.go", `return namespace, a.checkServer()`, `return namespace, nil`, testsKube("TestWhatIsWrongWithTheOptions/a_token_in_clear")),
	one("kube: a token is read once",
		"coord/kube/access.go", `err == nil && resp.StatusCode == http.StatusUnauthorized)`, `err == nil && resp.StatusCode == 0)`, testsKube("TestInAPodEverythingIsMounted")),
	one("kube: whatever answers in the server's place is believed",
		"coord/kube/request.go", `		err = q.answeredBy(out)`, `		_ = q.answeredBy(out)`, testsKube("TestWhatIsNoAnswerToTheRequestIsNotBelieved")),
	one("kube: who knows no leases says that one is not there",
		"coord/kube/request.go", ` && st.Details.Kind == "leases" && st.Details.Name == name`, ` && (st.Details.Name == name || true)`, testsKube("TestWhoKnowsNoLeasesSaysNothingOfOne")),
	one("kube: what answers in the server's place for a moment is taken for a refusal that lasts",
		"coord/kube/errors.go", `	if s.found.Load() {`, `	if s == nil {`, testsKube("TestWhatAnswersInTheServersPlaceMayPass")),
	one("kube: whatever a webhook makes of a lease will do",
		"coord/kube/memory.go", `err == nil && what != "" {`, `err == nil && what == "-" {`, testsKube("TestAnAPIServerThatStoresSomethingElseIsRefused")),
}
