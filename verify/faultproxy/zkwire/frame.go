package zkwire

import (
	"encoding/binary"
	"strconv"
)

// Op is an operation, by ZooKeeper's number.
type Op int32

const (
	Create          Op = 1
	Delete          Op = 2
	Exists          Op = 3
	GetData         Op = 4
	SetData         Op = 5
	GetACL          Op = 6
	SetACL          Op = 7
	GetChildren     Op = 8
	Sync            Op = 9
	Ping            Op = 11
	GetChildren2    Op = 12 // with the parent's Stat
	Check           Op = 13
	Multi           Op = 14
	Create2         Op = 15 // answers with the node's Stat
	RemoveWatches   Op = 18
	CreateContainer Op = 19
	CreateTTL       Op = 21
	Auth            Op = 100
	SetWatches      Op = 101
	CloseSession    Op = -11
)

var opNames = map[Op]string{
	Create: "create", Delete: "delete", Exists: "exists", GetData: "getData", SetData: "setData",
	GetACL: "getACL", SetACL: "setACL", GetChildren: "getChildren", Sync: "sync", Ping: "ping",
	GetChildren2: "getChildren2", Check: "check", Multi: "multi", Create2: "create2",
	CreateContainer: "createContainer", CreateTTL: "createTTL", Auth: "auth", SetWatches: "setWatches", RemoveWatches: "removeWatches",
	CloseSession: "closeSession",
}

func (op Op) String() string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return "op " + strconv.Itoa(int(op))
}

// eventXid is what a watch event has instead of a request's number.
const eventXid = -1

// parseRequest reads a frame of the client: length, xid, operation, and for most the path.
func parseRequest(frame []byte) Request {
	in := &reader{frame}
	in.int32()
	r := Request{Xid: in.int32(), Op: Op(in.int32())}
	switch r.Op {
	case Create, Delete, Exists, GetData, SetData, GetACL, SetACL, GetChildren, Sync, GetChildren2,
		Check, Create2, CreateContainer, CreateTTL:
		r.Path = in.string()
	case Multi: // each operation has a header of its own: its type, whether it is the last, an error
		in.skip(4 + 1 + 4)
		r.Path = in.string()
	}
	return r
}

// parseReplyXid reads a frame of the server: length, xid, zxid, error, and so on.
func parseReplyXid(frame []byte) int32 {
	in := &reader{frame}
	in.int32()
	return in.int32()
}

// A reader reads what there is; what is missing reads as zeros.
type reader struct{ rest []byte }

func (r *reader) skip(n int) []byte {
	n = min(max(n, 0), len(r.rest))
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) int32() int32 {
	if b := r.skip(4); len(b) == 4 {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) string() string { return string(r.skip(int(r.int32()))) }
