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
//   - Turns come in the order in which they were asked for. The next waiter is told, and until then asks only now and then.
//   - A process that is dead, stopped or cut off loses what it holds after a TTL.
//   - If Redis may have forgotten what it had answered (after a restart, a fail-over to a replica, or FLUSHALL), the next
//     request notices. Then all sessions end, and nobody is granted anything until a TTL has passed, so that nobody enters
//     beside a holder that does not know yet. The same pause comes when a database is used for the first time: it may be
//     empty because somebody has just emptied it.
//   - With appendonly yes, appendfsync always and no replicas, a restart forgets nothing, and sessions go on.
//
// It does not promise that tokens go on rising after Redis has forgotten. Nor does it promise to notice a backup that was
// put in place of the data, unless the server was restarted without appendfsync always. And it believes the server's wall
// clock in one thing: after Redis has forgotten, a clock that is set forward ends the pause too early.
//
// # Several that agree
//
//	locks, err := redis.ConnectQuorum(ctx, []string{"redis-a:6379", "redis-b:6379", "redis-c:6379"})
//
// These are three or five Redis servers that know nothing of one another: no replicas, no sentinels, no cluster. What counts
// is what a majority has agreed to (CASPaxos), so any minority may be killed, stopped or emptied, and nobody notices. Use it
// where you would have used Redlock: it does not rely on clocks, and it has tokens. Each change takes one request to each
// server, or two if several processes take turns at changing the same register.
//
// A server that may have forgotten its votes, because it was emptied or restarted without appendfsync always, does not vote
// until [Quorum.Heal] has given it what the others know. That takes 10 s and a program of a few lines:
//
//	q, err := redis.OpenQuorum(ctx, addresses)
//	if err == nil {
//		err = q.Heal(ctx)
//	}
//
// If a majority has forgotten, nobody is granted anything. Empty the other servers as well (FLUSHALL); the next process that
// opens them founds the group again. Each register that is deleted leaves a mark of some 300 bytes for ever.
//
// # Settings to check
//
// Open refuses what would be unsafe, with an error of one line: a maxmemory-policy that throws away keys without expiry
// (allkeys-…; the policies volatile-… do not touch our keys, and noeviction is best), a replica, a cluster, an older
// version. A Redis that has no memory left refuses to swap, and forgets nothing.
//
//	maxmemory-policy noeviction
//	appendonly yes
//	appendfsync always               a restart forgets nothing; each lock and unlock waits for the disk
//	no-appendfsync-on-rewrite no
//
// A cluster is refused because nothing tells whether the cluster as a whole has forgotten something. Do not enable
// replica-read routing in a proxy. Reads are scripts, so most proxies send them to the master; a read that reaches a replica
// is refused.
//
// # Sentinels
//
// Give their address and master_set (see [Open]). A fail-over forgets, as above: all clients that are led to the new master
// notice, and nobody is granted anything there until the longest TTL has passed.
//
// But a master that is replaced while it still answers does not know that it was. This happens if only its sentinels cannot
// reach it, and for some 10 s after it was told to make way (SENTINEL FAILOVER). Whoever holds there goes on, while the next
// one is let in at the new master. Only the old master can prevent that, by not writing without its replicas:
//
//	min-replicas-to-write 1          as many as it has replicas
//	min-replicas-max-lag 3           less than the sentinels' down-after-milliseconds, by more than a second
//
// Then it also stops when a replica is down. Three Redis that agree have neither problem.
//
// # Rights
//
//	ACL SETUSER turnwise on >secret ~turnwise* resetchannels &turnwise* +ping +info +client|info +config|get +subscribe
//	    +unsubscribe +publish +eval +evalsha +time +get +getrange +set +setrange +del +zadd +zrem +zrangebylex
//
// Without +config|get it cannot know whether a restart forgets, and assumes that it does. Some servers need +client|setinfo
// as well, to keep their log free of refusals.
//
// # What an operator sees
//
//	turnwise.memory               what the database remembers: id, replication id, 1 if kept on disk, since when (us), run id
//	turnwise.keys                 the names of all registers, a sorted set: ZRANGE turnwise.keys 0 -1
//	turnwise:line/orders/4711     who stands in a line: version (8 bytes), since when (16 digits, us), a reservation, the value
//	turnwise:session/1f0c…        a process
//	turnwise:0:line/orders/4711   channels, with the number of the database
//
// A quorum has "turnwise-quorum" instead of "turnwise". Its servers also have turnwise-quorum.member, which says whether the
// server votes (v), and in which group. Keys do not expire. To remove everything while nobody uses it:
//
//	redis-cli --scan --pattern 'turnwise*' | xargs redis-cli del
package redis
