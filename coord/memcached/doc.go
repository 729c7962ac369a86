// Package memcached carries turnwise's recipes on one memcached (1.6.12 or newer). A restart of the server ends all holds,
// and then nobody is granted anything until the longest TTL has passed.
//
// Use it if memcached is all you have. memcached keeps nothing on disk, it cannot tell waiters of a change, and there is no
// second server that takes over. See docs/engines.md for what other engines do.
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
// else is let in, tokens that rise. A death is noticed when the session has not been renewed for a TTL (10 s unless WithTTL
// says otherwise) while somebody looked. A client that comes after the death waits up to twice as long, since items have no
// age.
//
// It is noticed when the server forgets. There is an item of ours, the mark, that a restart and flush_all take away together
// with all else. Each request asks for the mark as well, and its answers count only if the mark is there, as it was. If it
// is not, all sessions end, and nobody is granted anything until the longest TTL has passed, so that nobody enters beside a
// holder that does not know yet. A swap that was on its way when the server was emptied may yet be stored, but with the old
// mark, and such an item counts as absent.
//
// # What it does not promise
//
// Tokens start over when the server was restarted or emptied: what they guard must be reset together with it.
//
// The server cannot tell a client of a change. So waiters poll: about every millisecond at first, falling to ten times a
// second later, and less often further back in line.
//
// One server only. Name the server itself, not a proxy or a list of servers: a proxy that leads elsewhere for a while shows
// another server's lines.
//
// # Settings
//
//   - -M, so that the server refuses what it has no room for. Without it a full server throws a line away without a word,
//     and then two hold at once. Open refuses such a server; see [WithEvictions].
//   - A server of its own, or enough memory (-m). A full server with -M takes nothing new, and what it has stays: nobody
//     enters a line or leaves it, and sessions end since they are not renewed.
//   - -F, so that nobody empties it with flush_all.
//   - Not -C: without cas there is nothing to compare.
//   - -o no_slab_reassign. By default the server moves its memory about, also with -M, and throws an item away that a client is
//     slow to read meanwhile: two hold at once then, and nobody notices. Open refuses such a server.
//   - Not -o ext_path: a file that is full loses its oldest part, and lines may be there. Open refuses such a server.
//   - -I is how large a line may be: 1 MB, the default, holds some 100,000 waiters of a few
//     processes, or 10,000 processes.
//   - No password (-Y, -S) and no TLS: anybody who reaches the port may do anything, so make sure that only your programs
//     reach it.
//
// # What an operator sees
//
//	$ nc cache 11211
//	mg turnwise.keys/0 v        a sixteenth of the keys; /1 to /15 have the others
//	mg turnwise:line/orders v   a line
//	mg turnwise.memory v        the mark, and since when the server remembers, in seconds (0: that is being found out)
//
// Keys that are long or have spaces are hashed. `turnwise line` shows what is in a line. Do not delete items while somebody
// holds a lock: `turnwise break` removes a node, and tells its owner. To start all over, delete the mark (md
// turnwise.memory) or restart the server: both are noticed.
package memcached
