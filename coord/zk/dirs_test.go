package zk

import (
	"errors"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
)

func TestTheServiceSweepsEmptyLines(t *testing.T) {
	s := play(t)
	e := entry("lock")
	e.Line = "a/b/c"
	me, _, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err)
	s.leave(me, true)
	require.Eventually(t, func() bool {
		there, _, err := s.admin.Exists(s.root)
		return err == nil && !there
	}, patience, 20*time.Millisecond)
}

// The directory may go at any moment between two joins, or within one.
func TestJoinsRaceWithTheSweeping(t *testing.T) {
	s := play(t)
	stop := make(chan struct{})
	swept := make(chan int)
	go func() {
		n := 0
		defer func() { swept <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			// Like the service, it removes only directories that were used and are empty.
			there, stat, err := s.admin.Exists(s.root + "/a")
			if err == nil && there && stat.Cversion > 0 && s.admin.Delete(s.root+"/a", -1) == nil {
				n++
			}
		}
	}()
	last := driver.Token(0)
	for range 200 {
		me, ahead := s.join(s.sess, "lock")
		require.Empty(t, ahead)
		require.Greater(t, me.Node().Token, last)
		last = me.Node().Token
		s.leave(me, true)
	}
	close(stop)
	n := <-swept
	t.Logf("swept %d times", n)
	require.Positive(t, n)
}

// Servers before 3.5.3 have no containers.
func TestWithoutContainersTheDriverSweeps(t *testing.T) {
	s := play(t)
	s.sess.service.plainDirs.Store(true)
	for _, line := range []string{"a", "a/b", "c"} {
		e := entry("lock")
		e.Line = line
		me, _, err := s.sess.Join(s.ctx, e)
		require.NoError(t, err)
		s.leave(me, true)
	}
	other := s.another()
	e := entry("lock")
	e.Line = "c"
	_, _, err := other.Join(s.ctx, e)
	require.NoError(t, err)
	time.Sleep(600 * time.Millisecond)
	there, _, err := s.admin.Exists(s.root + "/a/b")
	require.NoError(t, err)
	require.True(t, there, "plain directories are not swept by the service")

	require.NoError(t, s.sess.Close(s.ctx))
	names, _, err := s.admin.Children(s.root)
	require.NoError(t, err)
	require.Equal(t, []string{"c"}, names, "all but the one in use")
	require.NoError(t, other.Close(s.ctx))
	require.NoError(t, s.admin.Delete(s.root+"/c", -1))
	require.NoError(t, s.admin.Delete(s.root, -1))
}

func TestHowOldServersRefuseContainers(t *testing.T) {
	require.True(t, unimplemented(errors.New("unknown error: -6")))
	require.True(t, unimplemented(gozk.ErrShortBuffer))
	for _, err := range []error{nil, gozk.ErrNoNode, gozk.ErrConnectionClosed, errors.New("unknown error: -4")} {
		require.False(t, unimplemented(err))
	}
}
