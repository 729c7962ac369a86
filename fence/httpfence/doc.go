// Package httpfence refuses stale requests. A client sends the token of its hold in a header, and a handler lets no request
// through whose token is smaller than one it has seen.
//
// The client locks as always, and its requests go through a [Transport]:
//
//	ledger := &http.Client{Transport: &httpfence.Transport{Client: locks, Line: "orders"}}
//	err := mutex.New(locks, "orders").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
//		req, err := http.NewRequestWithContext(ctx, "PUT", "http://ledger/orders", body)
//		...
//		resp, err := ledger.Do(req) // 412 Precondition Failed: somebody else holds by now
//	})
//
// The server has [Require] before what writes:
//
//	http.Handle("PUT /orders", httpfence.Require(new(fence.Memory), httpfence.Line("orders"), save))
//
// # The header
//
//	Turnwise-Token: line=orders%2F42&token=1105
//	Turnwise-Token: line=orders%2F42&token=1105&epoch=1
//
// It is written like a query. A request may have several, for several lines. From a shell:
//
//	turnwise lock orders/42 -- sh -c 'curl -T total -H "Turnwise-Token: line=orders/42&token=$TURNWISE_TOKEN" http://ledger/orders/42'
//
// # What the server answers
//
//	412 Precondition Failed    the token is stale
//	428 Precondition Required  there is no token for the line
//	400 Bad Request            the header makes no sense
//	503 Service Unavailable    nobody knows: the keeper gave an error, or an older request did not come to its end in time
//
// # How much it keeps out
//
// Within one server, everything: when a request with a greater token comes, the contexts of those with smaller ones end,
// their bodies and connections too, and it waits until their handlers have returned. A handler that goes on after its
// context has ended holds up the newer ones, and never writes after them.
//
// Over a restart, and among several servers, what the [fence.Keeper] remembers: fence.Memory forgets at a restart, those of
// sqlfence and redisfence do not. A handler on one server that is paused can still write after one on another. Against that
// too there is only a fence where the data are: give what [Stamp] returns to sqlfence or redisfence, in the same transaction
// or script as the write.
package httpfence
