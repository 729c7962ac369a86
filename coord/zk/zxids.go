package zk

import "sync"

// zxids is what a session has seen of the service's transactions. The library keeps the last one as well, but sends its
// watches anew after a reconnect while it already takes replies, which move that on (the race detector finds it at
// lastZxid, in conn.go); then the service is not asked for what happened to them while the connection was away. So it
// is told no zxids, and wire puts in what is right where it sends one.
type zxids struct {
	mu      sync.Mutex
	highest int64 // no server that is behind this one will do
	watched int64 // until then whatever happened to a watched node has been told
}

// saw takes down what a reply tells. watched says that the watches were set on its connection.
func (z *zxids) saw(zxid int64, watched bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.highest = max(z.highest, zxid)
	if watched {
		z.watched = max(z.watched, zxid)
	}
}

func (z *zxids) last() int64 {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.highest
}

func (z *zxids) watchedUntil() int64 {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.watched
}
