// Package memcached carries turnwise's recipes on one memcached (1.6.12 or newer): a restart of the server ends all holds,
// and then nobody is granted anything until the longest TTL has passed.
//
// Take it if memcached is all you have. It keeps nothing on disk, it cannot tell those who wait, and there is no second
// one that takes over. See docs/engines.md for what others do.
//
//	client, err := memcached.Connect(ctx, "cache:11211")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	return mutex.New(client, "reports").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
//		return build(ctx)
//	})
//
// Each line and each session is an item, and is replaced only if nobody has replaced it since it was read (cas).
//
// # What it promises
//
// All that package coord promises, as long as the server runs: turns in the order of joining, holds that end before anybody
// else is let in, tokens that rise. Who dies is noticed when its session has not been renewed for a TTL (10 s unless WithTTL
// says otherwise) while somebody looked: one who comes after the death waits up to twice as long, since items have no age.
//
// What the server forgets is noticed. There is an item of ours, the mark, that a restart and flush_all take away together
// with all else: each request asks for it, too, and what was answered before it counts only if the mark is there, as it was.
// When it is not, all sessions end, and nobody is granted anything until the longest TTL has passed, so that nobody enters beside a holder who still
// believes. A swap that was on its way when the server was emptied may yet be stored, but with the mark of before, and such
// an item counts as not there.
//
// # What it does not promise
//
// Tokens begin anew when the server was restarted or emptied: what is guarded by them must be reset together with it.
//
// The server cannot tell a client of a change. So those who wait ask: about every millisecond at first, up to ten times a
// second later, those further back less often.
//
// One server only. Name the server itself, no proxy and no list of servers: a proxy that leads elsewhere for a while shows
// another world.
//
// # Settings
//
//   - -M, so that the server refuses what it has no room for. Without it a full server throws a line away without a
//     word, and then two hold. Open refuses such a server; see [WithEvictions].
//   - A server of its own, or enough memory (-m). One that is full and started with -M refuses what is stored, and it throws away
//     what the refused thing was to replace. All sessions end then, as after a restart.
//   - -F, so that nobody empties it with flush_all.
//   - Not -C: without cas there is nothing to compare.
//   - -I is how large a line may be: 1 MB, the default, holds some 100,000 waiters.
//   - No password (-Y, -S) and no TLS: anybody who reaches the port may do anything, so see to it that only your programs do.
//
// # What an operator sees
//
//	$ nc cache 11211
//	mg turnwise.keys/0 v        a sixteenth of the keys; /1 to /15 have the others
//	mg turnwise:line/orders v   a line
//	mg turnwise.memory v        the mark, and since when the server remembers, in seconds
//
// Keys that are long or have spaces are hashed. What is in a line shows `turnwise line`. Do not delete items while somebody
// holds a lock: `turnwise break` removes a node, and tells its owner. If all is to begin anew, delete the mark
// (md turnwise.memory) or restart the server: both are noticed.
package memcached
