package zk

import (
	"fmt"
	"path"
	"strings"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord"
)

// Guard protects data that are kept in the same ZooKeeper. Put the check it returns into the transaction that writes them:
// the transaction fails with gozk.ErrNoNode as soon as somebody else can hold the line.
//
//	check, err := zk.Guard(hold)
//	if err != nil {
//		return err
//	}
//	_, err = conn.Multi(check, &gozk.SetDataRequest{Path: "/balance", Data: data, Version: -1})
//
// The check needs READ permission on the hold's node. The node's path is absolute, so conn must have no chroot. After a
// downgrade, get another check. A hold that shares its node (coord.Together) is pinned: nobody gets that node after it.
//
// A ZooKeeper transaction can check that a path exists, but not that it is still the same node. turnwise never uses a path
// again, but anyone else with the CREATE right on the line's directory can create it again, and then an old check passes
// again. So give that right only to clients you trust with the data (WithDigestAuth, WithACL), or keep Hold.Token beside
// the data and refuse smaller ones.
func Guard(h *coord.Hold) (*gozk.CheckVersionRequest, error) {
	if h == nil {
		return nil, fmt.Errorf("turnwise: zk: Guard needs a hold: %w", coord.ErrInvalid)
	}
	h.Pin() // before the look: what has ended by then may be passed on
	if err := h.Err(); err != nil {
		return nil, fmt.Errorf("turnwise: zk: no guard for a hold that is over: %w", err)
	}
	id := h.Node().ID
	if _, ok := parseContender(path.Base(id)); !ok || !strings.HasPrefix(id, "/") {
		return nil, fmt.Errorf("turnwise: zk: no guard for the hold of %q: it is not held in ZooKeeper: %w", h.Node().Line, coord.ErrInvalid)
	}
	return &gozk.CheckVersionRequest{Path: id, Version: -1}, nil
}
