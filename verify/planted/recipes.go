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
	one("once: a slot is noted after the job, though it is to be run at most once",
		"recipes/once/once.go", `if j.policy == AtMostOnce {
		err = h.SetMemo`, `if j.policy == AtMostOnce && false {
		err = h.SetMemo`,
		testsOnce("TestASlotWhoseProcessDiesIsNotRunAgainIfAtMostOnce")),
	one("once: nobody looks again under the lock",
		"recipes/once/once.go", `	if err != nil || j.settles(last, slot) {
		return err == nil, err`, `	if err != nil || j.settles(last, slot) && false {
		return err == nil, err`, testsOnce("TestASlotIsRunOnceByOneOfMany")),
	one("once: an earlier slot is run after a later one",
		"recipes/once/once.go", `	case last.Slot > slot:
		return true`, `	case last.Slot > slot:
		return false`, testsOnce("TestASlotWhoseProcessDiesIsNotRunAgainIfAtMostOnce")),
	one("once: a job that failed counts as run",
		"recipes/once/once.go", `		if err := fn(ctx, h); err != nil {
			return err
		}`, `		_ = fn(ctx, h)`, testsOnce("TestASlotWhoseProcessDiesIsRunAgainIfAtLeastOnce")),
}

func testsOnce(name string) Tests {
	return Tests{Module: ".", Package: "./recipes/once", Run: "^" + name + "$"}
}

func testsMulti(name string) Tests {
	return Tests{Module: ".", Package: "./recipes/multi", Run: "^" + name + "$"}
}
