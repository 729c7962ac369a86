// Package deadlines says until when the holder of a line may believe in its session, and when somebody else may take that
// session for dead. Each service keeps a session in a way of its own:
//
//	ZooKeeper   Links: requests that the leader has answered show which pings it must have heard of
//	etcd        Lease: a renewal counts together with a linearizable read
//	registers   Swapped: a renewal is a swap; Standstill, Samples and LooksDead say when nobody renews any more
//
// These are plain values and pure functions, without clocks, locks or goroutines, so that verify/model/timed can walk every
// schedule with the very code that drivers call. A driver calls them one at a time, and never copies a value that it goes on
// using.
//
// All times are durations since one moment, by a monotonic clock: the driver keeps a time.Time from before its session began
// and passes time.Since of it. A wall clock must never get in here, since it may be set. A time of zero means never.
//
// No two clocks run alike, so each deadline is a little early: by a fiftieth of the timeout on ZooKeeper, by that and 50 ms
// on etcd, and by a twentieth on registers, where two clients' clocks are compared.
package deadlines
