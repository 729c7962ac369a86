// Package redis carries turnwise's recipes on one Redis or Valkey, 6.2 or newer, or on several that agree.
//
//	locks, err := redis.Connect(ctx, "redis://localhost:6379/0")
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//	m := mutex.New(locks, "orders/4711")
//	hold, err := m.Lock(ctx)
//
// # What it promises
//
//   - Turns come in the order in which they were asked for. Whoever is next is told, and asks for nothing meanwhile.
//   - A process that is dead, stopped or cut off loses what it holds after a TTL.
//   - If Redis may have forgotten what it had answered, that is noticed at the next request: after a restart, after a
//     fail-over to a replica, after FLUSHALL. Then all sessions end, and nobody is granted anything until a TTL has
//     passed: so nobody enters beside a holder who does not know yet. Nobody is granted for a TTL either when a database
//     is used for the first time: that it is empty may be because somebody has just emptied it.
//   - With appendonly yes, appendfsync always and no replicas, a restart forgets nothing, and sessions go on.
//
// What it does not promise: that tokens go on rising after it has forgotten. That a backup which was put in its place is
// noticed, unless the server was restarted without appendfsync always. And it believes the server's wall clock in one
// thing: after it has forgotten, a clock that is set forward ends the pause too early.
//
// # Several that agree
//
//	locks, err := redis.ConnectQuorum(ctx, []string{"redis-a:6379", "redis-b:6379", "redis-c:6379"})
//
// These are three or five Redis that know nothing of one another: no replicas, no sentinels, no cluster. What is stored is
// what a majority has agreed to (CASPaxos), so any minority may be killed, stopped or emptied, and nobody notices. It is for
// those who thought of Redlock; it does not rest on clocks, and has tokens. Each change takes a request to each of them,
// and two if processes take turns at it.
//
// One that may have forgotten its votes, because it was emptied or restarted without appendfsync always, does not
// vote until [Quorum.Heal] has given it what the others know. It takes 10 s, and a program of a few lines:
//
//	q, err := redis.OpenQuorum(ctx, addresses)
//	if err == nil {
//		err = q.Heal(ctx)
//	}
//
// If a majority has forgotten, nothing is granted. Empty the others, too (FLUSHALL), and the next who opens them founds the
// group anew. Registers that were deleted leave a mark of some 300 bytes for ever.
//
// # Settings to check
//
// What would be unsafe is refused at the opening, in one line: a maxmemory-policy that throws away keys without expiry
// (allkeys-…; those of volatile-… do not touch ours, and noeviction is best), a replica, a cluster, an older version. A
// Redis that has no memory left refuses to swap, and forgets nothing.
//
//	maxmemory-policy noeviction
//	appendonly yes
//	appendfsync always               a restart forgets nothing; each lock and unlock waits for the disk
//	no-appendfsync-on-rewrite no
//
// A cluster is refused: it has no memory that could be watched as a whole. Do not enable replica-read routing in a proxy:
// reads are scripts, so most proxies send them to the master, and one that reaches a replica is refused.
//
// # Sentinels
//
// Give their address and master_set (see [Open]). A fail-over forgets, as above: all who are led to the new master hear of it,
// and nobody is granted there until the longest TTL has passed.
//
// But a master whose place is taken while it still answers does not know of that: one that only its sentinels cannot reach, and
// for some 10 s one that was told to make way (SENTINEL FAILOVER). Who holds there goes on, and the next one is let in at the new
// master. Only the master can prevent that, by not writing without its replicas:
//
//	min-replicas-to-write 1          as many as it has replicas
//	min-replicas-max-lag 3           less than the sentinels' down-after-milliseconds, by more than a second
//
// Then it also stops when a replica is down. Three Redis that agree have neither trouble.
//
// # Rights
//
//	ACL SETUSER turnwise on >secret ~turnwise* resetchannels &turnwise* +ping +info +client|info +config|get +subscribe
//	    +unsubscribe +publish +eval +evalsha +time +get +getrange +set +setrange +del +zadd +zrem +zrangebylex
//
// Without +config|get it cannot know whether a restart forgets, and assumes it does. Some need +client|setinfo to keep
// the server's log free of refusals.
//
// # What an operator sees
//
//	turnwise.memory               what the database remembers: id, replication id, 1 if kept on disk, since when (us), run id
//	turnwise.keys                 the names of all registers, a sorted set: ZRANGE turnwise.keys 0 -1
//	turnwise:line/orders/4711     who stands in a line: version (8 bytes), since when (16 digits, us), a reservation, the value
//	turnwise:session/1f0c…        a process
//	turnwise:0:line/orders/4711   channels, with the number of the database
//
// A quorum has "turnwise-quorum" instead of "turnwise", and turnwise-quorum.member, which says whether it votes (v), and
// for which group. Keys do not expire. To remove everything while nobody uses it:
//
//	redis-cli --scan --pattern 'turnwise*' | xargs redis-cli del
package redis
