package etcd

import (
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// Names says what contenders' keys look like.
type Names int

const (
	// Isolated is the layout that turnwise uses unless told: nothing but its own contenders stands in a line.
	Isolated Names = iota

	// Stock is the layout of etcdctl lock, etcdctl elect and the package concurrency, so that they and turnwise wait
	// for one another: <name>/<lease>. It has their properties: whatever stands below a name counts as contender, so
	// lines a and a/b disturb one another, and nobody can tell who owns a contender.
	// The root is empty unless WithRoot says otherwise.
	Stock
)

const defaultRoot = "turnwise/"

// layout makes keys and takes them apart.
type layout struct {
	root  string
	names Names
}

// line is the prefix of all keys in a line.
func (l layout) line(name string) string {
	if l.names == Stock {
		return l.root + name + "/"
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

// stockKind is what a contender of other tools asks for, as far as one can tell.
const stockKind = "lock"

// A place is what a contender's key tells.
type place struct {
	kind  string
	lease clientv3.LeaseID // 0: not one of ours
}

// parse takes the rest of a key apart that follows its line's prefix.
func (l layout) parse(rest string) (place, bool) {
	if l.names == Stock {
		return parseStock(rest), rest != ""
	}
	kind, own, ok := strings.Cut(rest, "/")
	if !ok || !driver.ValidKind(kind) {
		return place{}, false
	}
	lease, n, ok := strings.Cut(own, "-")
	if !ok || !isNumber(n) {
		return place{}, false
	}
	id, ok := parseLease(lease)
	return place{kind, id}, ok
}

// parseStock never fails: what stands there counts, whatever its name, since it does for the other tools.
func parseStock(rest string) place {
	foreign := place{kind: stockKind}
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
	return place{kind, id}
}

// node makes a contender of what a read returned; false if it is none. Owner and Data are left out.
func (l layout) node(line string, kv *mvccpb.KeyValue) (driver.Node, bool) {
	key := string(kv.Key)
	at, ok := l.parse(strings.TrimPrefix(key, l.line(line)))
	if !ok {
		return driver.Node{}, false
	}
	return driver.Node{
		Line:  line,
		ID:    nodeID(key, kv.CreateRevision),
		Kind:  at.kind,
		Token: driver.Token(kv.CreateRevision),
	}, true
}

// lineOf is the line that a key stands in; false if it is no contender's.
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
	// Any program may keep keys here; a contender is one whose name begins with its own lease.
	own := leaseHex(clientv3.LeaseID(kv.Lease))
	name, ok := strings.CutPrefix(rest[i+1:], own)
	return rest[:i], ok && kv.Lease != 0 && (name == "" || name[0] == '-')
}

// session is the prefix of a session's own keys. It is within no line's: a line's name begins with no slash.
func (l layout) sessions() string {
	if l.names == Stock {
		return l.root + "/turnwise/session/"
	}
	return l.root + "/session/"
}

func (l layout) epoch(lease clientv3.LeaseID) string {
	return l.sessions() + leaseHex(lease) + "/epoch"
}

func (l layout) left(lease clientv3.LeaseID) string {
	return l.sessions() + leaseHex(lease) + "/left"
}

// leftOf is the left key of the session that made a contender; "" if its key is not of our make.
func (l layout) leftOf(line, key string) string {
	at, ok := l.parse(strings.TrimPrefix(key, l.line(line)))
	if !ok || at.lease == 0 {
		return ""
	}
	return l.left(at.lease)
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

// nodeID is a key and which of its incarnations: a create revision never comes again.
func nodeID(key string, created int64) string { return key + "@" + strconv.FormatInt(created, 10) }

// parseID takes a node's ID apart.
func parseID(id string) (key string, created int64, ok bool) {
	i := strings.LastIndexByte(id, '@')
	if i <= 0 || !isNumber(id[i+1:]) {
		return "", 0, false
	}
	created, _ = strconv.ParseInt(id[i+1:], 10, 64)
	return id[:i], created, true
}
