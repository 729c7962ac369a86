// Package httpfence refuses stale requests. A client sends the token of its hold in a header, and a handler refuses
// requests whose token is smaller than one it has seen.
//
// The client locks as usual, and its requests go through a [Transport]:
//
//	ledger := &http.Client{Transport: &httpfence.Transport{Client: locks, Line: "orders"}}
//	err := mutex.New(locks, "orders").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
//		req, err := http.NewRequestWithContext(ctx, "PUT", "http://ledger/orders", body)
//		...
//		resp, err := ledger.Do(req) // 412 Precondition Failed: somebody else holds the lock by now
//	})
//
// The server puts [Require] before the handler that writes, and what finds out who somebody is before Require:
//
//	http.Handle("PUT /orders", authenticated(httpfence.Require(new(fence.Local), httpfence.Line("orders"), save)))
//
// # The header
//
//	Turnwise-Token: line=orders%2F42&token=1105
//	Turnwise-Token: line=orders%2F42&token=1105&epoch=1
//
// It is written like the query of a URL. A request may have several of them, for several lines. From a shell:
//
//	turnwise lock orders/42 -- sh -c 'curl -T total -H "Turnwise-Token: line=orders/42&token=$TURNWISE_TOKEN" http://ledger/orders/42'
//
// # What the server answers
//
//	412 Precondition Failed    the token is stale
//	428 Precondition Required  there is no token for the line
//	400 Bad Request            the header makes no sense
//	503 Service Unavailable    nobody knows: the fence returned an error, or an older request did not end in time
//
// # How much it keeps out
//
// Within one server, everything. When the fence has let a request with a greater token through, those with smaller ones are
// ended: their contexts, their bodies and their connections. The newer request then waits until their handlers have returned.
// A handler that goes on after its context has ended holds up the newer ones, but never writes after them. A request that
// the fence does not let through, or that nobody can judge, ends no other. So if the fence itself waits for a handler, as
// sqlfence does for a transaction that has passed for the line, the newer request waits until that transaction has ended. So
// read the body before the transaction begins, and give the server a ReadTimeout.
//
// Over a restart, and among several servers, as much as the [fence.Fence] remembers: fence.Local forgets at a
// restart, sqlfence and redisfence do not. A handler that is paused on one server can still write after
// one on another. Only a fence where the data is can prevent that: give what [Stamp] returns to sqlfence or redisfence,
// in the same transaction or script as the write.
//
// # Who may come
//
// Whoever gets as far as Require may name any token, and the greatest shuts out all others for good: have requests
// authenticated before Require, not in the handler. Where it has happened, raise the epoch, as docs/fencing.md says; nothing
// is above the greatest epoch of all, so there the fence has to be told to forget. Where the line is part of the request, as
// of its path, whoever comes may name many lines, and fence.Local keeps a stamp for each line ever named.
package httpfence
