package planted

// zk are the bugs of the driver for ZooKeeper.
var zk = []Bug{
	one("zk: the deadline counts from the receipt of an answer",
		"coord/zk/session.go", `Renewed(sent, keptFor(s.timeout()))`, `Renewed(time.Now(), keptFor(s.timeout()))`, Tests{Module: ".", Package: "./coord/zk", Run: "^TestTheDeadlineCountsFromTheSending$"}),
	one("zk: a departure that had no answer is not repeated",
		"coord/zk/leave.go", `err := driverkit.UntilGone(ctx, p.session.life, try, passing)`, `err := try(ctx)`, conformsZK("06", "in an ended context")),
	one("zk: a mark lets in whoever waits for it, right behind or not",
		"coord/zk/await.go", ` && a.rightBehind(last.path)`, ``, conformsZK("12", "the mark of one that is not right ahead")),
}

// conformsZK runs a scenario of the conformance suite, below the number of its obligation.
func conformsZK(obligation, scenario string) Tests {
	return Tests{Module: ".", Package: "./coord/zk", Run: conformance(obligation, scenario)}
}
