package zk

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoMoreListsAreUnderWayThanFit(t *testing.T) {
	w := &window{sizes: make(map[string]int)}
	long := w.enterNow("long")
	w.exit(long, windowBytes/4)
	var under []*listing
	for range 4 {
		l := w.enterNow("long")
		require.NotNil(t, l)
		under = append(under, l)
	}
	require.Nil(t, w.enterNow("long"))
	over := make(chan struct{})
	entered := make(chan *listing)
	for range 2 {
		go func() { entered <- w.enter(nil, over, "long") }()
	}
	w.exit(under[0], windowBytes/4)
	l := <-entered
	require.NotNil(t, l)
	select {
	case <-entered:
		t.Fatal("there was no room")
	default:
	}
	close(over)
	require.Nil(t, <-entered)
	w.exit(l, windowBytes/4)
	for _, l := range under[1:] {
		w.exit(l, 3*windowBytes)
	}
	require.Zero(t, w.open)
	require.NotNil(t, w.enterNow("long"), "one is let through, however long")
	require.Nil(t, w.enterNow("short"))
}
