package planted

// zk are the bugs of the driver for ZooKeeper.
var zk = []Bug{
	one("zk: the deadline counts from the receipt of an answer",
		"coord/zk/session.go", `sent.Sub(s.base)`, `time.Since(s.base)`, Tests{Module: ".", Package: "./coord/zk", Run: "^TestTheDeadlineCountsFromTheSending$"}),
	one("zk: a departure that had no answer is not repeated",
		"coord/zk/leave.go", `if s.takeAway(ctx, st, held) == nil {`, `if err := s.takeAway(ctx, st, held); true {
		if err != nil {
			return err
		}`, conformsZK("06", "in an ended context")),
	one("zk: a mark lets in whoever waits for it, right behind or not",
		"coord/zk/await.go", ` && a.me.rightBehind(a.others[n].path)`, ``, conformsZK("12", "the mark of one that is not right ahead")),
}

// conformsZK is a scenario of the conformance suite, on the number of its obligation.
func conformsZK(obligation, scenario string) Tests {
	return Tests{Module: ".", Package: "./coord/zk", Run: conformance(obligation, scenario)}
}
