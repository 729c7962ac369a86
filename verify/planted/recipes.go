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
}

func testsMulti(name string) Tests {
	return Tests{Module: ".", Package: "./recipes/multi", Run: "^" + name + "$"}
}
