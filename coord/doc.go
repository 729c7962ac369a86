// Package coord coordinates processes through a service such as ZooKeeper or etcd.
//
// There is one idea. Whoever wants something puts a node at the end of a line; the service numbers the nodes. A
// [Rule] looks at the nodes ahead and says which one to wait for; when there is none, it is your turn. When a process
// dies its node goes, and the next one moves up.
//
// Most users want a recipe: mutex, rwlock, semaphore or election. All are made of [Client.Acquire] and a rule, and
// all give you a [Hold] for as long as it is your turn. Get a [Client] from a driver: zk.Connect, etcd.Connect, or
// mem for one process.
//
// # What a hold promises
//
// At most one holder (by the recipe's rule) has a hold that is still valid by its own clock, provided that clocks run
// at nearly the same rate and that nobody pauses between looking at the hold and acting on what it saw. The hold
// ends at its [Hold.Deadline] even if no packet ever arrives, and that is before the service lets anyone else in.
//
// # What it does not promise
//
// A process can be paused for a minute after it looked and before it writes. No lock service can prevent that write;
// only the place written to can refuse it. Give it the [Hold.Token], which grows along a line forever, and let it
// refuse smaller ones: that is what [Fence] does, and for data in the same service the drivers have a Guard to put
// into your own transaction.
//
// A service may also take a session away before its time (an operator's command; an etcd leader that was frozen and
// goes on), and an operator may remove a node with [Client.Break]. Then the hold ends as soon as word of it arrives,
// which may be after the next one was let in.
//
// A machine that sleeps stops the clock that deadlines are counted on: count such a machine among the paused.
//
// # How long a call takes
//
// [Client.Acquire] waits as long as its context lasts, or [MaxWait] allows. [Client.TryAcquire], [Hold.Release],
// [Client.Line], [Client.First], [Client.Lines] and [Client.Break] wait for nobody but the service: each returns within
// one request's deadline, which is the driver's unless [WithRequestTimeout] sets another, or when its context ends, if
// that is sooner. [Client.Close] takes the driver's. A Release that runs out of time goes on in the background.
// [Client.Watch] and [Client.Shutdown] take as long as their contexts last.
package coord
