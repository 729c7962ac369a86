// Package storekit has what stores for coord/register share, so that each is mended in one place. It is for authors of
// stores; what a store must do, package register says at Store. A store takes the parts that suit it.
//
// The ways into a store's package have the same names everywhere:
//
//	Connect   an address -> a coord.Client
//	Open      an address -> the store
//	New       the user's own connection to the service -> a driver; only where a user may have one to give
//
// and the same method is in the same file; see docs/architecture.md. What is here, by the file of a store that uses it:
//
//	options.go        Package: what errors begin with. Settings, which a configuration embeds; Configure applies options, checks
//	                  them, and refuses those that would have no effect on that Way in
//	connect.go        Connect: the strength that is asked for, then the store, then the client. Settings.Driver is for New
//	open.go           Package.TakeSteps: steps, each tried again until it succeeds, is refused, or time is up. IsLasting: what
//	                  trying again would not mend
//	store.go          Known: which memory the store goes by. Pool: its connections, if no library has one. With: both. ErrClosed
//	read.go swap.go   Query and Change: when to try again at once. Outcome: what came of a swap that has changed nothing
//	                  Seen: what was seen last of each register. Expected: a swap that goes by that
//	list.go           Pages: a listing in the order of keys, a page at a time. Listed: what a list says of a register that is NotOurs
//	memory.go         Known.Recall: to look which memory there is, one at a time, as Looking has it. Run: whether the server was
//	                  started anew
//	errors.go         Explain, Denied and NotOurs: what an error means, and its class. IsUntrusted: it is about a certificate.
//	                  Package.Failed, Package.Unopened, OneLine: one line that says it
//
// On SQL, Number, Version, Micros and Since are for the columns of a row, and MostRead and MostListed bound it. Commas bounds what
// comes of JSON.
package storekit
