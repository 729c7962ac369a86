// Package coord coordinates processes through a service such as ZooKeeper or etcd.
//
// There is one idea. A process that wants something puts a node at the end of a line, and the service numbers the
// nodes. A [Rule] looks at the nodes ahead and says which ones to wait for; when there are none, it is your turn. When
// a process dies, its node goes, and the next one moves up.
//
// Most users want a recipe: mutex, rwlock, semaphore or election. Each is [Client.Acquire] with a rule, and gives you a
// [Hold] for as long as it is your turn. Get a [Client] from the Connect of a service's package (zk, etcd, file, redis,
// postgres, mysql, memcached, nats, kube), from package backend by a URL, or from package mem within one process.
//
// # What a hold promises
//
// At most one holder (or as many as the recipe's rule allows) has a hold that is still valid by its own clock, provided
// that clocks run at nearly the same rate and that no process pauses between looking at the hold and acting on what it
// saw. The hold ends at its [Hold.Deadline] even if no packet ever arrives, and the service lets nobody else in before
// that.
//
// # What it does not promise
//
// A process can be paused for a minute between looking and writing. No lock service can prevent that write; only the
// place that is written to can refuse it. Give that place the [Hold.Token], which grows along a line forever, and have
// it refuse smaller ones. Package fence does that; for data in the same service, the drivers have a Guard to put into your
// own transaction.
//
// A service may also end a session before its time (on an operator's command, or when an etcd leader was frozen and
// goes on), and an operator may remove a node with [Client.Break]. The hold then ends as soon as the client hears of
// it, which may be after the next one was let in.
//
// Deadlines are counted on a clock that stops while the machine sleeps, so a process on a machine that sleeps counts as
// paused.
//
// # How long a call takes
//
// [Client.Acquire] waits as long as its context lasts, or [MaxWait] allows. [Client.TryAcquire], [Hold.Release],
// [Client.Line], [Client.First], [Client.Lines] and [Client.Break] wait only for the service: each returns when its
// context ends or within the deadline of one request, whichever is sooner. That deadline is the driver's unless
// [WithRequestTimeout] sets another; [Client.Close] always uses the driver's. A Release that runs out of time goes on
// in the background. [Client.Watch] and [Client.Shutdown] may take as long as their contexts last.
package coord
