// Package redis carries turnwise's recipes on one Redis or Valkey, 6.2 or newer. Use it for quick hand-offs where a restart
// may end all holds, or give the server the settings with which it does not. If one server is too few to rely on, see
// [github.com/turnwise/turnwise/coord/redis/quorum], which takes three or five that agree.
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
//   - With appendonly yes, appendfsync always and no replicas, a restart forgets nothing, and sessions go on. If appendonly is
//     switched off all sessions end, and so they do when the server is then started with what it had written before. It may
//     have been: so whoever opens a session within the longest TTL after any start of the server waits for the rest of that.
//   - If the server goes on with an older file, such as a backup, everybody notices whose session was renewed since that was made. All
//     sessions end then, and nobody is granted for the longest TTL. It is not noticed by who has renewed nothing since: so not before a
//     quarter of the TTL has passed, if the backup was made just then.
//   - A dump that is read in while the server runs brings back what it has remembered. So after any SWAPDB, FLUSHALL, FLUSHDB or RESTORE,
//     of whichever database, whoever opens a session within the longest TTL waits for the rest of that. A server that is sent one of
//     these all the time lets nobody new in: use one of its own then.
//
// It does not promise that tokens go on rising after Redis has forgotten. And it believes the server's wall clock in one thing:
// after Redis has forgotten, a clock that is set forward ends the pause too early.
//
// # Settings to check
//
// Open refuses what would be unsafe, with an error of one line: a maxmemory-policy that throws away keys without expiry
// (allkeys-…, even if memory has no limit yet; the policies volatile-… do not touch our keys, and noeviction is best), a
// replica, a cluster, an older version. A Redis that has no memory left refuses to swap, and forgets nothing. If somebody sets
// such a policy later, whoever misses a key that was thrown away makes all begin anew.
//
//	maxmemory-policy noeviction
//	appendonly yes
//	appendfsync always               a restart forgets nothing; each lock and unlock waits for the disk
//	no-appendfsync-on-rewrite no
//
// To have the file written anew, say BGREWRITEAOF. Do not switch appendonly off and on for that: if no request comes in between,
// nobody can tell, and a crash before the new file is complete takes the server back to the old one, as to a backup.
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
// With TLS, the sentinels have to speak it too, and to show a certificate that counts: else whoever answers in their place says
// where the master is.
//
// But a master that is replaced while it still answers does not know that it was. This happens if only its sentinels cannot
// reach it, and for some 10 s after it was told to make way (SENTINEL FAILOVER). Whoever holds there goes on, while the next
// one is let in at the new master. Only the old master can prevent that, by not writing without its replicas:
//
//	min-replicas-to-write 1          as many as it has replicas
//	min-replicas-max-lag 3           less than the sentinels' down-after-milliseconds, by more than a second
//
// Then it also stops when a replica is down. Three Redis that agree (package quorum) have neither problem.
//
// # Rights
//
//	ACL SETUSER turnwise on >secret ~turnwise* resetchannels &turnwise* +ping +info +client|info +config|get +subscribe
//	    +unsubscribe +publish +eval +evalsha +time +get +getrange +set +setrange +del +zadd +zrem +zrangebylex
//
// Give others no right that needs no key of theirs: -@dangerous -@scripting. With +@write they may empty the server, or exchange its
// databases, with +@connection have everybody wait, and with a script that comes to no end as well. That is not enough where they must
// not end holds: in each category there is a command that keeps the server busy, such as LOLWUT, LCS and CLIENT TRACKING. Give them single
// commands, or have a server of your own: docs/security.md.
//
// Without +config|get it cannot know whether a restart forgets, and assumes that it does. Some servers need +client|setinfo
// as well, to keep their log free of refusals.
//
// # What an operator sees
//
//	turnwise.memory               what the database remembers: id, replication id, 1 if kept on disk, since when (us), run id,
//	                              how often databases were exchanged or emptied, or keys restored
//	turnwise.renewals             how often sessions were renewed: it tells a file that is older, such as a backup
//	turnwise.keys                 the names of all registers, a sorted set: ZRANGE turnwise.keys 0 -1
//	turnwise:line/orders/4711     who stands in a line: version (8 bytes), since when (16 digits, us), a reservation, the value
//	turnwise:session/1f0c…        a process
//	turnwise:0:line/orders/4711   channels, with the number of the database
//
// Keys do not expire. To remove everything while nobody uses it:
//
//	redis-cli --scan --pattern 'turnwise[.:]*' | tr '\n' '\0' | xargs -0 redis-cli del
package redis
