// Package register carries turnwise's recipes on anything that can compare and swap: a driver, written once, over a
// [Store], of which there is one for files (coord/file) and one for each of several services. To use one of those, import
// its package; this one is for the authors of stores.
//
// # How it works
//
// A line is one register. Its value says who stands in it, in order, and whoever wants to join, leave or amend swaps in
// what it is to become. The nodes that a process has in a line joining or leaving at once go in one swap. Whoever swaps
// knows the whole line, and with it whose turn it is; the store tells those who have their turn now, and nobody else. So
// a join is one swap, a leave is one, and a hand-off is one note and no look.
//
// A session is a register, too, that its process renews four times in a TTL. Who has seen it stand still for a TTL deletes
// it, and removes its nodes. A store that knows by itself whether a process lives (a [Keeper]) needs no TTL.
//
// # What it promises
//
// What package driver asks for, if the store keeps its own contract, see [Store]. In particular:
//
//   - A swap whose answer was lost is applied once or not at all: whoever swaps chooses the version, so a second try
//     finds the first, and until it is known what became of it nothing else is built on it.
//   - Tokens rise for ever, also when a line's register was deleted and made anew; see epoch.go.
//   - A session is ended by others only after nobody has seen it renewed for a TTL, which is later than its own deadline.
//     The clocks of the store and of its clients are believed only together with a look of one's own.
//   - If the store forgets, all sessions end, and nobody is granted until the longest TTL has passed, provided the store
//     notices (see [Memory]), or what it shows is older than what was seen of it before.
package register
