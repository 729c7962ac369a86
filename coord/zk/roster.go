package zk

import (
	"fmt"
	"path"
	"sync"
	"sync/atomic"
)

// roster is what a session may have at the service: the places it stands in, the joins under way, and the remains of joins
// that came to nothing.
type roster struct {
	standing atomic.Int64 // how many places and joins there are

	mu      sync.Mutex
	places  map[*place]int // how many bytes each takes where the service lists the session's nodes
	joins   map[string]int // the same, by GUID
	remains map[string]int // the same, by path
	bytes   int
}

func newRoster() *roster {
	return &roster{places: make(map[*place]int), joins: make(map[string]int), remains: make(map[string]int)}
}

// maxPaths is how many bytes the paths of a session's nodes may take. When a session ends, the service puts them all into
// one transaction. If that is larger than jute.maxbuffer (a megabyte; newer servers allow twice as much), the other servers
// refuse it, and the ensemble stops serving, even after a restart (ZOOKEEPER-4306).
const maxPaths = 1_000_000

// begin records a join that is about to make a node in a directory. It stays on the roster until end.
func (r *roster) begin(dir string, c contender) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 4 + len(dir+"/"+c.name())
	if r.bytes+n > maxPaths {
		return fmt.Errorf("the paths of this session's %d nodes take %d bytes, and the service may not survive the end of a "+
			"session with more than %d (ZOOKEEPER-4306): use another client, or shorter names",
			len(r.places)+len(r.joins), r.bytes, maxPaths)
	}
	r.bytes += n
	r.joins[c.guid] = n
	r.count()
	return nil
}

// end is called when nothing more will come of a join.
func (r *roster) end(guid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= r.joins[guid]
	delete(r.joins, guid)
	r.count()
}

// rename is for a join that starts over under another GUID.
func (r *roster) rename(old, guid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joins[guid] = r.joins[old]
	delete(r.joins, old)
}

// add records what has come of a join.
func (r *roster) add(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 4 + len(p.node.ID)
	r.bytes += n
	r.places[p] = n
	r.count()
}

// amended records the new path of a place's node.
func (r *roster) amended(p *place, nodePath string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, stands := r.places[p]; stands {
		n := 4 + len(nodePath)
		r.bytes += n - before
		r.places[p] = n
	}
}

// remove is called when a place's node is surely no longer in line.
func (r *roster) remove(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= r.places[p]
	delete(r.places, p)
	r.count()
}

// stands reports whether a place has been taken and not left yet.
func (r *roster) stands(p *place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, stands := r.places[p]
	return stands
}

// discarding records a node that is to be taken away.
func (r *roster) discarding(nodePath string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.remains[nodePath]; !known {
		r.remains[nodePath] = 4 + len(nodePath)
		r.bytes += 4 + len(nodePath)
	}
}

// discarded is called when it is gone.
func (r *roster) discarded(nodePath string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= r.remains[nodePath]
	delete(r.remains, nodePath)
}

// count is called with mu held.
func (r *roster) count() { r.standing.Store(int64(len(r.places) + len(r.joins))) }

// stranger returns one of the session's nodes that is not on the roster, if there is one.
func (r *roster) stranger(nodes []string) (nodePath string, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := make(map[string]bool, len(r.places))
	for p := range r.places {
		for _, nodePath := range p.allPaths() {
			mine[nodePath] = true
		}
	}
	for _, nodePath := range nodes {
		c, _ := parseContender(path.Base(nodePath))
		_, joining := r.joins[c.guid]
		_, remains := r.remains[nodePath]
		if !mine[nodePath] && !joining && !remains {
			return nodePath, true
		}
	}
	return "", false
}
