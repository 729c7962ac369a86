// Package nats carries turnwise's recipes on one NATS server with JetStream, 2.12 or newer. Use it if you run NATS anyway: a hand-off
// takes a millisecond.
//
//	locks, err := nats.Connect(ctx, "nats://localhost:4222")
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
//   - As it comes, NATS answers before a write is on its disk (sync_interval: 2m), and a machine that loses its power forgets
//     what it had answered. Nobody can tell how a server was ended. So after each start of the server all sessions end, and nobody
//     is granted anything until the longest TTL has passed.
//   - With sync_interval: always, and with [WithMonitor], by which the store can see that, a restart forgets nothing, and sessions
//     go on. All who share a stream must say the same about that: whoever says otherwise is refused.
//
// The longest TTL is also what the first waits who uses a root, and whoever is new after a start of the server: the stream may have
// been deleted, or the server may have been started with an older disk, while who held before is cut off.
//
// A disk that is put back to an earlier state is noticed by each client that has seen something newer. All clients notice when the
// stream is deleted. Do not have a running server switch JetStream off and on again by a reload, with another disk in between: it is
// the same server to all, and nobody waits. Nor move the user that processes connect as to another account by a reload while anybody
// holds something: there is another stream, or one that others have used before. Nor put a backup of the stream back into a running
// server (nats stream restore): in the older format of backups it says itself when it was made, so nobody waits, and two may hold. Put it
// back, and start the server anew before anybody connects.
//
// # One server
//
// A server that is one of a cluster is refused. Nothing tells a client which of the servers has answered, or whether it has all that
// the one before had answered: there are reports of clusters that lost acknowledged writes when servers were killed (nats-server
// #7545, #7564, #7567). So do not point the address to another server than before.
//
// # Settings to check
//
//	jetstream {
//	    store_dir: /var/lib/nats
//	    sync_interval: always        each lock and unlock waits for the disk, and a restart forgets nothing
//	}
//	http: 127.0.0.1:8222             for WithMonitor
//	max_payload: 1MB                 512 kB or more
//
// A line of ten thousand waiters takes some 100 kB; a message has room for 900 kB of it.
//
// A store has two connections: what is told comes on one of its own, so that nobody is late for what others tell.
//
// # Rights
//
// Give turnwise an account of its own, without leaf nodes: a stream on one of them answers in the place of ours. All accounts share
// the server's store, so give each a limit of storage: while the store is full no session is renewed, and holds end. If turnwise has
// to share an account, its user needs
//
//	publish:   turnwise.r.>, $JS.API.STREAM.INFO.turnwise, $JS.API.STREAM.CREATE.turnwise, $JS.API.STREAM.DELETE.*,
//	           $JS.API.STREAM.MSG.GET.turnwise
//	subscribe: turnwise.told.>, turnwise.inbox.>
//
// and everybody else must have none on turnwise.> and on the JetStream API of these streams, nor the right to make or change streams
// of any name: what they publish goes where he says. Even so, whoever may ask for anything there can have the answer sent to
// JetStream, where it is a request like any other. See docs/security.md for what each is good for. Open tries them, and says
// which one is lacking.
//
// # What an operator sees
//
//	turnwise                                   the stream; its metadata say which memory it is of
//	turnwise.r.1f0c93ab52e74d10.KIND.KEY       the subject of a register: the memory, "k" and the key up to its first slash, and
//	                                           the key, both in base64url
//	turnwise.r.1f0c93ab52e74d10.first.NUMBER   the stream's first message, which stands as long as the stream has lost nothing
//	turnwise.told.>                            the headers of what the stream has stored, with the notes
//
// Messages cannot be deleted, nor the stream purged. To start all over while nobody uses it, delete the stream:
//
//	nats stream rm turnwise
package nats
