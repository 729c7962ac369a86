package zk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

// A node named a%2Fa is not the line a/a. If it were taken for it, each level of such nodes would be reached in twice as
// many ways as the one above it.
func TestLinesGoesThroughEachDirectoryOnce(t *testing.T) {
	s := play(t)
	const depth = 60
	dir, name := s.root, []string{}
	for range depth {
		dir += "/a"
		name = append(name, "a")
		s.mkdir(t, dir)
		s.raw(dir+"/a%2Fa", gozk.WorldACL(gozk.PermAll))
	}
	e := entry("lock")
	e.Line = strings.Join(name, "/")
	_, _, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err)
	before := s.proxies[0].Requests(zkwire.GetChildren2)
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	lines, err := s.link.Lines(ctx, "")
	require.NoError(t, err)
	require.Equal(t, []string{e.Line}, lines)
	require.LessOrEqual(t, s.proxies[0].Requests(zkwire.GetChildren2)-before, depth+1)
}

// No line has a name of more than a kilobyte, however deeply somebody nests directories.
func TestLinesGoesNoDeeperThanNamesMayBeLong(t *testing.T) {
	s := play(t)
	segment := strings.Repeat("x", 200)
	dir := s.root
	for range 12 {
		dir += "/" + segment
		s.mkdir(t, dir)
	}
	s.mkdir(t, s.root+"/"+strings.Repeat("y", 300))
	before := s.proxies[0].Requests(zkwire.GetChildren2)
	lines, err := s.link.Lines(s.ctx, "")
	require.NoError(t, err)
	require.Empty(t, lines)
	require.LessOrEqual(t, s.proxies[0].Requests(zkwire.GetChildren2)-before, 1+1024/200)
}

func TestLinesEndsWithItsContext(t *testing.T) {
	s := play(t)
	for part := range slices.Chunk(make([]int, 3000), 1000) {
		var ops []any
		for range part {
			ops = append(ops, &gozk.CreateRequest{Path: s.root + "/" + newGUID(), Acl: gozk.WorldACL(gozk.PermAll)})
		}
		s.mkdir(t, s.root)
		_, err := s.admin.Multi(ops...)
		require.NoError(t, err)
	}
	heal := s.link.Delay(20 * time.Millisecond)
	defer heal()
	ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.link.Lines(ctx, "")
	require.ErrorIs(t, err, context.DeadlineExceeded, fmt.Sprint("after ", time.Since(start)))
	require.Less(t, time.Since(start), 3*time.Second)
}

// Anyone who may stand in a line may do so many times, with a megabyte of data each time.
func TestWhatALineSaysIsKeptUpToABound(t *testing.T) {
	s := play(t)
	s.mkdir(t, s.root+"/loud")
	const nodes, each = 20, 10_000
	for i := range nodes {
		name := fmt.Sprintf("%s/loud/%s", s.root, contender{guid: newGUID(), kind: "lock", seq: int32(i)}.name())
		_, err := s.admin.Create(name, make([]byte, each), 0, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	link, _ := s.wire(t, func(c *config) { c.lineBytes = 5 * each })
	line, err := link.Line(s.ctx, "loud")
	require.NoError(t, err)
	require.Len(t, line, nodes)
	kept := 0
	for i, n := range line {
		kept += len(n.Data)
		require.Equal(t, "lock", n.Kind)
		require.True(t, i == 0 || n.Token > line[i-1].Token)
	}
	require.Equal(t, 5*each, kept)
}
