// Package kube carries turnwise's recipes on Lease objects of Kubernetes, in one namespace. It needs no client-go and nothing
// but the standard library. A pod takes its API server and its credentials from what is mounted into it.
//
//	client, err := kube.Connect(ctx, "") // the namespace of this pod
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	return election.New(client, "reports").Run(ctx, nil, func(ctx context.Context, term *election.Term) error {
//		return build(ctx)
//	})
//
// Each line and each session is a Lease, and is replaced only if it is still the object that was seen (its uid), at the version
// that was seen (its resourceVersion).
//
// # What it promises
//
// All that package coord promises: turns in the order of joining, holds that end before anybody else is let in, tokens that
// rise for ever. An API server answers a write when a majority of etcd has it on disk, so neither a restart nor a fail-over
// forgets a write; kine in etcd's place, as k3s has it, promises what its database does. A hand-off takes milliseconds: who
// waits watches the leases that tell him something.
//
// A death is noticed when the session has not been renewed for a TTL (10 s unless WithTTL says otherwise). It may take a third
// more than that, since API servers have no clock that would do: their Date has whole seconds, and each has its own.
//
// It is noticed when a backup of etcd is put back, by each client that has seen something newer: by its next write, since that
// has an older revision than it had seen. If the revisions were raised meanwhile (etcdutl's --bump-revision), or others have made
// up for them, it is noticed by the next look at a lease that was changed since the backup, such as that of its own session; and the
// session of somebody who only waits is changed once in five TTLs. Then all sessions end, and nobody is granted
// anything until the longest TTL has passed. Likewise when somebody has deleted the lease NAME-memory. Who comes first in a
// namespace waits that long, too, since he cannot tell whether somebody has emptied it. While no watch is open nobody can tell
// whether the API server was away; so whoever is about to hold something then has his session renewed first.
//
// # What it does not promise
//
// Who has seen nothing that is newer than the backup, because it is new itself, notices nothing before somebody else has. So stop
// the holders before you restore a backup, as you would anyway. Tokens that were given since the backup may be given again.
//
// # How long a line may be
//
// A line is one object, and what an object's annotations have room for is 150,000 bytes of it: some 15,000 waiters of a few
// processes, or 1,400 processes with one waiter each. Whoever comes after that gets an error. Each join and each leave writes the
// whole line into etcd, so with more than some hundred in line at a time use several lines, or one candidate for each process,
// who passes turns on among its goroutines.
//
// # What it costs the cluster
//
// A session is a Lease that is renewed four times in a TTL, or once in five TTLs while its client only waits: that is a PUT, and one
// write to etcd. A TTL of 30 s is kinder to a large cluster than 10 s. Each client has
// one watch, and one more for each line that it observes.
//
// # Rights
//
// The program needs get, list, watch, create, update and delete on leases of coordination.k8s.io in one namespace; see
// docs/kubernetes.md for the Role, and for what somebody else with one of these rights can do. Open tries them, and says which
// one is lacking.
//
// # What an operator sees
//
//	$ kubectl get leases -l turnwise/root=turnwise
//	NAME                                        HOLDER          AGE
//	turnwise-line-reports-55c2f9…               reports-7d9f/1  3d     a line: who is first in it
//	turnwise-memory                                             3d     the mark of the memory
//	turnwise-session-…                                          2m     a session
//
// The annotation turnwise/key has a lease's key in full. `turnwise -b kube://NAMESPACE who NAME` shows what is in a line, and
// `turnwise break` removes a node and tells its owner. Do not delete leases while somebody holds a lock. To start all over,
// delete all that have the label turnwise/root=turnwise.
package kube
