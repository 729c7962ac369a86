package planted

// memory are the bugs of the in-process driver and its service.
var memory = []Bug{
	one("the deadline counts from the receipt of a renewal",
		"internal/memory/session.go", `s.deadline.Renewed(sent, ttl-ttl/10)`, `s.deadline.Renewed(time.Now(), ttl-ttl/10)`, hunt),
	one("an answer of a server that is cut off from the others vouches for a hold",
		"internal/memory/session.go", `if s.profile() == ZooKeeper && s.standing > 0 {`, `if false {`, scripts),
	one("a change and a departure of which news comes together are taken for a mark",
		"internal/memory/watches.go", `shared.marked = shared.changed == e.rev`, `shared.marked = shared.changed > 0`, scripts),
	one("a join whose answer was lost is forgotten",
		"internal/memory/join.go", `a, err = s.settle(ctx, id, e)`, `err = ctx.Err()`, hunt),
	one("a lost join may be applied after it was not found",
		"internal/memory/join.go", `if s.profile() == Etcd {`, `if false {`, hunt),
	one("a departure whose answer was lost is not repeated",
		"internal/memory/leave.go", `p.life.Errand(func() { _ = p.takeAway(chore, me, held) })`, `_ = chore`, hunt),
	one("a change of the node ahead is taken for its owner's leaving",
		"internal/memory/await.go", `if !w.isGone(w.watches[i]) {`, `if w.watches[i].changed > 0 {
			return &finding{}, nil
		}
		if !w.isGone(w.watches[i]) {`, hunt),
	{"one enters though the own node has been removed", []Edit{
		{"internal/memory/await.go", `if err == nil && !a.found {`, `if false {`},
		{"internal/memory/await.go", `if w.isGone(w.own) {`, `if false {`},
	}, hunt},
	one("a watch is set without reading what it is set on",
		"internal/memory/watches.go", `if !a.found {`, `if false {`, hunt),
	one("watches are not set anew after a reconnect",
		"internal/memory/watches.go", `s.disarmAll()
		return`, `return`, hunt),
	one("a look may be older than the own join",
		"internal/memory/requests.go", `s.catchUp(rep, s.head().applied)
		a.found, a.node = true, n`, `a.found, a.node = true, n`, hunt),
	one("a waiter enters when anybody ahead has left",
		"internal/memory/await.go", `return w.moveUp(ctx, i)`, `return &finding{}, nil`, hunt),
	one("a holder told that its node is gone believes until it has asked",
		"internal/memory/await.go", `if w.plainlyRemoved() {`, `if false {`, hunt),
	one("a holder whose question stalls does not hear that its node is gone",
		"internal/memory/await.go", `if w.holds { // a holder whose question`, `if false { // a holder whose question`, hunt),
}
