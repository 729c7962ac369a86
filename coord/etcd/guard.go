package etcd

import (
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
)

// Guard returns a comparison that is true as long as the hold lasts. Put it into the If of your own transaction on the same
// etcd: the transaction does nothing once the hold is lost, however long the process was paused in between. It is the fence
// for data that live in etcd.
//
//	guard, err := etcd.Guard(hold)
//	if err != nil {
//		return err
//	}
//	_, err = client.Txn(ctx).If(guard).Then(clientv3.OpPut("orders/last", id)).Commit()
//
// A write lock still passes after a downgrade. A hold that shares its node (coord.Together) is pinned: nobody gets that node
// after it. Guard returns the hold's error if the hold has already ended, and another error if it was not taken through this
// package.
func Guard(h *coord.Hold) (clientv3.Cmp, error) {
	if h == nil {
		return clientv3.Cmp{}, fmt.Errorf("turnwise: etcd: Guard needs a hold: %w", coord.ErrInvalid)
	}
	h.Pin() // before the look: what has ended by then may be passed on
	if err := h.Err(); err != nil {
		return clientv3.Cmp{}, fmt.Errorf("turnwise: etcd: guard %q: %w", h.Node().Line, err)
	}
	n := h.Node()
	key, created, ok := parseID(n.ID)
	if own := key[strings.LastIndexByte(key, '/')+1:]; !ok || parseStock(own).lease == 0 {
		return clientv3.Cmp{}, fmt.Errorf("turnwise: etcd: guard %q: the hold is not of this service: %w", n.Line, coord.ErrInvalid)
	}
	return isIncarnation(key, created), nil
}
