// Package quorum carries turnwise's recipes on several Redis or Valkey, 6.2 or newer, that agree by majority. Use it where you
// would have used Redlock: it does not rely on clocks, and it has tokens.
//
//	locks, err := quorum.Connect(ctx, []string{"redis-a:6379", "redis-b:6379", "redis-c:6379"})
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//	m := mutex.New(locks, "orders/4711")
//	hold, err := m.Lock(ctx)
//
// Take three or five servers that know nothing of one another: no replicas, no sentinels, no cluster. Addresses and options
// are those of [github.com/turnwise/turnwise/coord/redis], and so are the settings that each server should have and the
// rights that a user needs.
//
// # What it promises
//
//   - Turns come in the order in which they were asked for. The next waiter is told, and until then asks only now and then.
//   - A process that is dead, stopped or cut off loses what it holds after a TTL.
//   - Any minority may be killed, stopped, emptied or replaced, and nobody notices. Nothing that was answered is forgotten, and tokens
//     rise for ever.
//   - If a majority has forgotten, nobody is granted anything. After the group was founded anew, nobody is for the longest TTL. That
//     alone goes by the servers' wall clocks: if a majority of them are set forward meanwhile, it is over too early.
//
// What counts is what a majority has agreed to (CASPaxos). Each change takes one request to each server, or two if several
// processes take turns at changing the same register. Each register that is deleted leaves a mark of
// some 300 bytes. It goes after an hour or so, when all servers of the group vote.
//
// # The group
//
// The first process that opens the servers founds a group of them. For that all must be there, and empty. The group keeps a
// roster of its servers, and agrees on each change of that. A vote counts only with votes by the same roster, so whatever servers a
// process names, it agrees with all others or with nobody. Name all servers of the group: one that is not named is not asked. One
// that is named and is not of the group has no vote. A server has one vote however many names lead to it, and two names of one
// are refused.
//
// A server that may have forgotten its votes does not vote: after it was emptied, or restarted without appendfsync always. The
// log says so. [Store.Heal] gives it what the others know, so that it votes again. That takes a program of a few lines:
//
//	q, err := quorum.Open(ctx, addresses)
//	if err == nil {
//		err = q.Heal(ctx)
//	}
//
// With [Store.Reform] in its place the group takes in the servers that are named here, each in the place of one that is not, or in
// addition. So a server is replaced, or three become five, while everybody goes on. After each of these, have all processes name
// the new servers before the next one is replaced. Should one forget before a server that is taken in votes, it may be that no majority
// votes; nothing is lost, and Heal has the group go on. Name all of the servers for it, also the new one and the one that is to go.
//
// With this setting a restart forgets nothing, and there is nothing to heal:
//
//	appendonly yes
//	appendfsync always
//
// If a majority has forgotten, empty all servers (FLUSHALL), also those that have forgotten their votes and nothing else. The
// next process that opens them founds the group again, and all sessions end. A group is founded on empty servers only. To change
// redis.WithLongestTTL, stop all processes and do the same: a server from which a key is taken away has forgotten its votes.
//
// A disk that is put back to an earlier state makes a server forget without a sign: empty it before it is started. So does a crash
// just after somebody has switched appendonly off and on at once, before the new file is complete: say BGREWRITEAOF instead. And so does
// a crash while appendfsync is set to something else for a time (CONFIG SET): do not change it while the server runs.
//
// # What an operator sees
//
// Each server has this; the names begin with "turnwise-quorum" unless WithRoot says otherwise:
//
//	turnwise-quorum.member               whether the server votes (v), in which group, in which memory, since when (us), in which
//	                                     term, and the roster: of each server the memory, the term in which it came, and its address;
//	                                     of the last one also whose place it took
//	turnwise-quorum.memory               what the database remembers, as in package redis
//	turnwise-quorum.floor                the ballot above which a register that was forgotten is made again
//	turnwise-quorum.memory.turn:…        who may disturb others at a register; it expires by itself
//	turnwise-quorum.keys                 the names of all registers, a sorted set
//	turnwise-quorum:line/orders/4711     promised (32 digits), accepted (32 digits), since when (16 digits, us), what was accepted
//	turnwise-quorum:\x01roster           the same for what the group has decided on last: the next term and its roster
//	turnwise-quorum:0:line/orders/4711   channels, with the number of the database
package quorum
