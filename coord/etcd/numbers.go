package etcd

import (
	"container/heap"
	"sync"
)

// numbers tell the contenders of a session apart. They are used again, the smallest first: a key that is new each time
// would stay in the service's index until it is compacted, and every look at the line would come across it.
type numbers struct {
	mu    sync.Mutex
	last  int64
	free  smallest
	taken map[string]taken // by key
}

type taken struct{ number, created int64 }

// take finds the number for a key.
func (n *numbers) take(name func(number int64) string) (key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var t taken
	if len(n.free) > 0 {
		t.number = heap.Pop(&n.free).(int64)
	} else {
		n.last++
		t.number = n.last
	}
	key = name(t.number)
	n.taken[key] = t
	return key
}

// made says which incarnation of a key there is.
func (n *numbers) made(key string, created int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t, ok := n.taken[key]; ok {
		n.taken[key] = taken{t.number, created}
	}
}

// give returns the number of an incarnation of a key that has gone, or that was never made and will not be: 0. Only the
// last one counts, and once: an older one may be removed again and again.
func (n *numbers) give(key string, created int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t, ok := n.taken[key]; ok && t.created == created {
		delete(n.taken, key)
		heap.Push(&n.free, t.number)
	}
}

type smallest []int64

func (s smallest) Len() int           { return len(s) }
func (s smallest) Less(i, j int) bool { return s[i] < s[j] }
func (s smallest) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *smallest) Push(x any)        { *s = append(*s, x.(int64)) }
func (s *smallest) Pop() any {
	old := *s
	x := old[len(old)-1]
	*s = old[:len(old)-1]
	return x
}
