package zk

import (
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
)

func TestAGuardRefusesTheWriteOfAStaleHolder(t *testing.T) {
	s := play(t)
	c, err := Connect(s.ctx, s.cluster.Addrs(), WithRoot(s.root))
	require.NoError(t, err)
	defer c.Close()
	s.raw(s.root, gozk.WorldACL(gozk.PermAll))
	s.raw(s.root+"/balance", gozk.WorldACL(gozk.PermAll))
	write := func(check *gozk.CheckVersionRequest, data string) error {
		_, err := s.admin.Multi(check, &gozk.SetDataRequest{Path: s.root + "/balance", Data: []byte(data), Version: -1})
		return err
	}

	h, err := c.Acquire(s.ctx, "a", "lead", []byte("one"), exclusive)
	require.NoError(t, err)
	check, err := Guard(h)
	require.NoError(t, err)
	require.NoError(t, write(check, "1"))
	require.NoError(t, h.Amend(s.ctx, "lead", []byte("another")), "other data of the node do not matter")
	require.NoError(t, write(check, "2"))
	require.NoError(t, h.Release())

	require.ErrorIs(t, write(check, "3"), gozk.ErrNoNode)
	data, _, err := s.admin.Get(s.root + "/balance")
	require.NoError(t, err)
	require.Equal(t, "2", string(data))

	_, err = Guard(h)
	require.ErrorIs(t, err, coord.ErrReleased)
}

func TestANodeThatOthersShareIsNotPassedOnUnderAGuard(t *testing.T) {
	s := play(t)
	c, err := Connect(s.ctx, s.cluster.Addrs(), WithRoot(s.root))
	require.NoError(t, err)
	defer c.Close()
	h, err := c.Acquire(s.ctx, "a", "lock", nil, exclusive, coord.Together(time.Minute))
	require.NoError(t, err)
	check, err := Guard(h)
	require.NoError(t, err)
	require.NoError(t, h.Release())
	_, err = c.Acquire(s.ctx, "a", "lock", nil, exclusive, coord.Together(time.Minute))
	require.NoError(t, err)
	_, err = s.admin.Multi(check)
	require.ErrorIs(t, err, gozk.ErrNoNode)
}

// A path that is created again would let an old check pass. Creating it needs the CREATE right on the line.
func TestAGuardIsNotRevivedWithoutTheRightToCreate(t *testing.T) {
	s := play(t)
	c, err := Connect(s.ctx, s.cluster.Addrs(), WithRoot(s.root), WithDigestAuth("alice", "secret"))
	require.NoError(t, err)
	defer c.Close()
	h, err := c.Acquire(s.ctx, "a", "lock", nil, exclusive)
	require.NoError(t, err)
	check, err := Guard(h)
	require.NoError(t, err)
	require.NoError(t, h.Release())
	_, err = s.admin.Create(check.Path, nil, 0, gozk.WorldACL(gozk.PermAll))
	require.ErrorIs(t, err, gozk.ErrNoAuth)
}

func TestAGuardIsForHoldsInZooKeeper(t *testing.T) {
	service := mem.New()
	defer service.Close()
	c := service.Client()
	defer c.Close()
	h, err := c.Acquire(t.Context(), "a", "lock", nil, exclusive)
	require.NoError(t, err)
	_, err = Guard(h)
	require.ErrorIs(t, err, coord.ErrInvalid)
	require.NoError(t, h.Release())
}
