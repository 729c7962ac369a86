package zk

import "sync/atomic"

// zxids is what a session has seen of the service's transactions. The library keeps the last one as well, but in a way
// that the race detector objects to (lastZxid, in conn.go). So it is told none, and wire puts in what is right where it
// sends one.
type zxids struct{ highest atomic.Int64 }

// saw takes down what a reply tells.
func (z *zxids) saw(zxid int64) {
	for {
		old := z.highest.Load()
		if zxid <= old || z.highest.CompareAndSwap(old, zxid) {
			return
		}
	}
}

// last is what no server may be behind, and no answer to come will be.
func (z *zxids) last() int64 { return z.highest.Load() }
