package etcd

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// Names says what contenders' keys look like.
//
// Processes with different settings do not exclude one another: those with [Isolated] see only each other, whatever the
// root. So change from one to the other only while nobody is in line.
type Names int

const (
	// Isolated is the default layout: nothing but turnwise's own contenders stands in a line.
	Isolated Names = iota

	// Stock is the layout of etcdctl lock, etcdctl elect and the package concurrency, so that they and turnwise wait
	// for one another: <name>/<lease>. It has the properties of theirs: whatever stands below a name counts as a contender, so
	// lines a and a/b disturb one another, and nobody can tell who owns a contender. The root is empty unless WithRoot says
	// otherwise.
	//
	// The prefix that other tools use has to be the same, slashes included. For theirs of "/my-lock" use WithRoot("/") and the line
	// my-lock; for "/my-lock/", WithTrailingSlash as well. Of contenders that see only "/my-lock/", whoever waits for "/my-lock"
	// is warned.
	Stock
)

const defaultRoot = "turnwise/"

// layout makes keys and values, and reads them.
type layout struct {
	root  string
	names Names
	tail  string // with stock names: what stands between a line's name and the slash before its contenders
}

// line is the prefix of all keys in a line.
func (l layout) line(name string) string {
	if l.names == Stock {
		return l.root + name + l.tail + "/"
	}
	return l.root + name + "//"
}

// contender is the key of one contender.
func (l layout) contender(line, kind string, lease clientv3.LeaseID, n int64) string {
	own := leaseHex(lease) + "-" + strconv.FormatInt(n, 10)
	switch {
	case l.names == Isolated:
		return l.line(line) + kind + "/" + own
	case kind == stockKind:
		return l.line(line) + own
	default:
		return l.line(line) + own + "-" + kind
	}
}

// stockKind is the kind of other tools' contenders, as far as we can tell.
const stockKind = "lock"

// origin is what a contender's key tells.
type origin struct {
	kind  string
	lease clientv3.LeaseID // 0: not one of ours
}

// parse takes apart what follows the line's prefix in a key.
func (l layout) parse(rest string) (origin, bool) {
	if l.names == Stock {
		return parseStock(rest), rest != ""
	}
	kind, own, ok := strings.Cut(rest, "/")
	if !ok || !driver.ValidKind(kind) {
		return origin{}, false
	}
	lease, n, ok := strings.Cut(own, "-")
	if !ok || !isNumber(n) {
		return origin{}, false
	}
	id, ok := parseLease(lease)
	return origin{kind, id}, ok
}

// parseStock never fails: whatever stands there counts, whatever its name, because it counts for the other tools.
func parseStock(rest string) origin {
	foreign := origin{kind: stockKind}
	lease, n, ok := strings.Cut(rest, "-")
	if !ok {
		return foreign
	}
	n, kind, named := strings.Cut(n, "-")
	if !named {
		kind = stockKind
	}
	id, ok := parseLease(lease)
	if !ok || !isNumber(n) || !driver.ValidKind(kind) {
		return foreign
	}
	return origin{kind, id}
}

// node makes a contender of what a read returned; false if it is not one. Owner and Data are left out.
func (l layout) node(line string, kv *mvccpb.KeyValue) (driver.Node, bool) {
	key := string(kv.Key)
	from, ok := l.parse(strings.TrimPrefix(key, l.line(line)))
	if !ok {
		return driver.Node{}, false
	}
	return driver.Node{
		Line:  line,
		ID:    nodeID(key, kv.CreateRevision),
		Kind:  from.kind,
		Token: driver.Token(kv.CreateRevision),
	}, true
}

// lineOf returns the line that a key stands in; false if it is no contender's key.
func (l layout) lineOf(kv *mvccpb.KeyValue) (string, bool) {
	rest, ok := strings.CutPrefix(string(kv.Key), l.root)
	if !ok {
		return "", false
	}
	if l.names == Isolated {
		line, rest, ok := strings.Cut(rest, "//")
		if !ok || line == "" {
			return "", false
		}
		_, ok = l.parse(rest)
		return line, ok
	}
	i := strings.LastIndexByte(rest, '/')
	if i <= 0 {
		return "", false
	}
	// Any program may keep keys here; a contender is a key whose name begins with its own lease.
	own := leaseHex(clientv3.LeaseID(kv.Lease))
	name, ok := strings.CutPrefix(rest[i+1:], own)
	line, tailed := strings.CutSuffix(rest[:i], l.tail)
	return line, ok && tailed && line != "" && kv.Lease != 0 && (name == "" || name[0] == '-')
}

// isDeaf reports whether a contender of another tool does not see ours: its own name for the line ends with a slash.
func (l layout) isDeaf(n driver.Node) bool {
	return l.names == Stock && strings.HasPrefix(n.ID, l.line(n.Line)+"/")
}

// sessions is the prefix of the sessions' own keys. It is within no line's prefix, since no line's name begins with a
// slash.
func (l layout) sessions() string {
	if l.names == Stock {
		return l.root + "/turnwise/session/"
	}
	return l.root + "/session/"
}

func (l layout) epoch(lease clientv3.LeaseID) string {
	return l.sessions() + leaseHex(lease) + "/epoch"
}

// leaseHex writes a lease as etcdctl and the package concurrency do.
func leaseHex(id clientv3.LeaseID) string { return strconv.FormatUint(uint64(id), 16) }

func parseLease(s string) (clientv3.LeaseID, bool) {
	id, err := strconv.ParseUint(s, 16, 63)
	return clientv3.LeaseID(id), err == nil && id != 0 && leaseHex(clientv3.LeaseID(id)) == s
}

func isNumber(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n > 0 && strconv.FormatInt(n, 10) == s
}

// parseNumber parses what isNumber accepts.
func parseNumber(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// nodeID names a key and one of its incarnations: no create revision is used twice.
func nodeID(key string, created int64) string { return key + "@" + strconv.FormatInt(created, 10) }

// parseID takes apart an ID that comes from outside.
func parseID(id string) (key string, created int64, ok bool) {
	i := strings.LastIndexByte(id, '@')
	if i <= 0 || !isNumber(id[i+1:]) {
		return "", 0, false
	}
	return id[:i], parseNumber(id[i+1:]), true
}

// inLine takes apart the ID of a contender for that line.
func (l layout) inLine(line, id string) (key string, created int64, ok bool) {
	key, created, ok = parseID(id)
	if ok && strings.HasPrefix(key, l.line(line)) {
		_, ok = l.node(line, &mvccpb.KeyValue{Key: []byte(key), CreateRevision: created})
		return key, created, ok
	}
	return "", 0, false
}

// keyOf returns the key of a node that a look has shown.
func keyOf(n *driver.Node) string { return n.ID[:strings.LastIndexByte(n.ID, '@')] }

// amendedHead begins the value of a contender whose kind is no longer the one in its key. The key cannot change: its create
// revision is the place in the line.
const amendedHead = "turnwise kind "

// encodeValue returns the value of a contender's key. keyKind is the kind in the key.
func (l layout) encodeValue(keyKind string, n *driver.Node) string {
	card := string(n.Data) // what the package concurrency's Election reads
	if l.names == Isolated {
		card = string(driver.EncodeCard(n.Owner, n.Data))
	}
	// With stock names the owner's data comes first, and may look like a head.
	if n.Kind != keyKind || keyKind != stockKind && strings.HasPrefix(card, amendedHead) {
		return amendedHead + n.Kind + "\n" + card
	}
	return card
}

// decodeValue completes a node whose Kind comes from its key.
func (l layout) decodeValue(n *driver.Node, value []byte) {
	// With stock names a lock's value may be another tool's, and tells nothing.
	if kind, card, ok := cutAmended(value); ok && (l.names == Isolated || n.Kind != stockKind) {
		n.Kind, value = kind, card
	}
	if l.names == Isolated {
		n.Owner, n.Data = driver.DecodeCard(value)
	} else if len(value) > 0 {
		n.Data = value
	}
}

// decodeKind does what decodeValue does, for the kind alone.
func (l layout) decodeKind(n *driver.Node, value []byte) {
	if bytes.HasPrefix(value, []byte(amendedHead)) {
		l.decodeValue(n, value)
		n.Owner, n.Data = driver.Owner{}, nil
	}
}

func cutAmended(value []byte) (kind string, card []byte, ok bool) {
	rest, ok := bytes.CutPrefix(value, []byte(amendedHead))
	if !ok {
		return "", nil, false
	}
	head, card, ok := bytes.Cut(rest, []byte{'\n'})
	if !ok || !driver.ValidKind(string(head)) {
		return "", nil, false
	}
	return string(head), card, true
}

// numbers tell the contenders of a session apart. They are reused, the smallest first: new keys each time would stay in
// etcd's index until the next compaction, and every look at the line would come across them.
type numbers struct {
	mu    sync.Mutex
	used  int64            // all numbers up to this one have been used
	free  []int64          // those of them that are free again, the largest first
	keys  map[int64]string // of those that are not free
	again bool             // a number has been given back
	swept int64            // this one is not given out meanwhile; 0: none
}

// next returns the smallest number that is free, and the key that is made of it.
func (n *numbers) next(key func(int64) string) (number int64, _ string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := len(n.free) - 1
	if i >= 0 && n.free[i] == n.swept {
		i--
	}
	if i >= 0 {
		number = n.free[i]
		n.free = slices.Delete(n.free, i, i+1)
	} else {
		if n.used++; n.used == n.swept {
			n.free = slices.Insert(n.free, 0, n.used)
			n.used++
		}
		number = n.used
	}
	if n.keys == nil {
		n.keys = make(map[int64]string)
	}
	n.keys[number] = key(number)
	return number, n.keys[number]
}

// someReused reports whether a number has ever been given back.
func (n *numbers) someReused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.again
}

// keep has a number given to nobody from now on, and returns true, unless that key is the one of whoever has it.
func (n *numbers) keep(number int64, key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keys[number] == key {
		return false
	}
	n.swept = number
	return true
}

// keepNone ends what keep began.
func (n *numbers) keepNone() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.swept = 0
}

// giveBack frees a number whose key has gone, or was never made and never will be.
func (n *numbers) giveBack(number int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, _ := slices.BinarySearchFunc(n.free, number, func(a, b int64) int { return cmp.Compare(b, a) })
	n.free = slices.Insert(n.free, i, number)
	delete(n.keys, number)
	n.again = true
}
