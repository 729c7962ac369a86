package planted

var peers = []Bug{
	one("client-go: whoever asks seldom is taken for gone",
		"peers/clientgo/lock.go", `		return mostIdle
`, `		return l.lasts
`, testsIn("peers/clientgo", "TestWhoAsksSeldomLeads")),
	one("client-go: who was refused once stands no more",
		"peers/clientgo/lock.go", `		case coord.IsLasting(err): // an operator may mend it
			_ = driverkit.Sleep(ctx, driverkit.Jitter(mendedIn))`, `		case coord.IsLasting(err):
			return`, testsIn("peers/clientgo", "TestWhoWasRefusedForAWhileStandsAgain")),
	one("client-go: a lead is believed in for longer than the term is sure to last",
		"peers/clientgo/lock.go", `case l.term.Deadline().Sub(asked) < l.lasts:`, `case l.term.Deadline().Sub(asked) < 0:`,
		testsIn("peers/clientgo", "TestSessionsThatAreTooShortSaySo")),
	one("client-go: a second term is taken for the first",
		"peers/clientgo/lock.go", `l.told, l.barred = time.Time{}, time.Now().Add(2*l.lasts)
	}`, `l.told = time.Time{}
	}`,
		testsIn("peers/clientgo", "TestNobodyLeadsOnThroughTheTermOfAnother")),
	one("client-go: whom nobody asks stands on",
		"peers/clientgo/lock.go", `		default:
			l.end()
		}
	})`, `		}
	})`, testsIn("peers/clientgo", "TestSessionsThatAreTooShortSaySo")),
	one("client-go: one that was stopped and still believes loses its term at once",
		"peers/clientgo/lock.go", `		case !l.told.IsZero() && !l.kept:
			// The`, `		case false:
			// The`, testsIn("peers/clientgo", "TestNobodyLeadsBesideOneThatWasStoppedAndStillBelieves")),
	one("client-go: while programs change over, the lease alone decides",
		"peers/clientgo/beside.go", `	if err := b.locked(func() error { return b.sure(r, asked) }); err != nil {
		return err
	}
	if err := change(ctx, r); err != nil {
		return b.lacks(err)
	}
	return b.locked(func() error {
		b.holder = r.HolderIdentity
		return b.tell(r, asked)
	})`, `	_ = asked
	return change(ctx, r)`, testsIn("peers/clientgo", "TestProgramsChangeOverOneByOne")),
	one("client-go: while programs change over, our election alone decides",
		"peers/clientgo/beside.go", `	if err := change(ctx, r); err != nil {
		return b.lacks(err)
	}
`, ``, testsIn("peers/clientgo", "TestProgramsChangeOverOneByOne")),
	one("client-go: who cannot be told of its term keeps it",
		"peers/clientgo/lock.go", `if !l.leads() || since < 2*max(l.lasts, l.gap) {`, `if l.leads() || since > 0 {`, testsIn("peers/clientgo", "TestWhoCannotBeToldOfItsTermMakesWay")),
	one("client-go: who waits for the lease of another counts as one that cannot be told",
		"peers/clientgo/lock.go", `if !l.again { //`, `if false { //`, testsIn("peers/clientgo", "TestWhoWaitsForTheLeaseOfAnotherKeepsItsPlace")),
	one("client-go: a place is given back while its elector still believes",
		"peers/clientgo/lock.go", `time.AfterFunc(time.Until(l.believesUntil()), func()`, `time.AfterFunc(0, func()`, testsIn("peers/clientgo", "TestAHintAndAStallLetNobodyLeadBesideOneThatBelieves")),
	one("client-go: who is cut off from the lease takes its time to give it up",
		"peers/clientgo/beside.go", `time.Now().Before(until) {`, `time.Now().After(until) && until.IsZero() {`, testsIn("peers/clientgo", "TestWhoIsCutOffFromTheLeaseGivesItUpInTime")),
	one("client-go: a leader's name goes to the log as it is",
		"peers/clientgo/lock.go", `l.leader = shown(leader.Data)`, `l.leader = string(leader.Data)`, testsIn("peers/clientgo", "TestALeadersNameIsShownSafelyAndNotAtLength")),
}
