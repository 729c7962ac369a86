// Package register carries turnwise's recipes on anything that can compare and swap. It is one driver, written once, over a
// [Store]; there is a store for files (coord/file) and one for each of several services. To use one of those, import its
// package. This one is for the authors of stores.
//
// # How it works
//
// A line is one register. Its value says who stands in it, in order. A client that wants to join, leave or amend swaps in a
// new value. Nodes of one process that join or leave a line at the same time share one swap. The client that swaps knows the
// whole line, and so whose turn it is now; the store tells exactly those waiters. So a join is one swap, a leave is one
// swap, and a hand-off is one note and no look.
//
// A session is a register as well, which its process renews four times in a TTL, and less often while it only waits where the
// store is [Sure]. A client that finds it not renewed for a TTL deletes it and removes its nodes. A store that knows by itself
// whether a process lives (a [Presence]) needs no TTL.
//
// # What it promises
//
// Everything that package driver asks for, provided the store keeps the contract of [Store]. In particular:
//
//   - A swap whose answer was lost is applied once or not at all. The client chooses the version, so a second try finds the
//     first, and nothing else is built on the swap until its outcome is known.
//   - Tokens rise for ever, even after a line's register was deleted and created again; see epoch.go.
//   - Others end a session only when it has not been renewed for a TTL, which is later than its own deadline. A client
//     that waits measures that by its own clock. It believes the store's only as far as its own samples of it agree. A
//     TryLock needs the store's clock or the wall clocks to be right.
//   - If the store forgets, all sessions end, and nobody is granted anything until the longest TTL has passed. This requires
//     that the store notices (see [Memory]), or that what it shows is older than what it showed before.
package register
