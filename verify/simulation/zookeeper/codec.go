package zookeeper

import "encoding/binary"

// The numbers of ZooKeeper's operations.
const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opSetData         = 5
	opGetACL          = 6
	opSetACL          = 7
	opGetChildren     = 8
	opSync            = 9
	opPing            = 11
	opGetChildren2    = 12
	opCheck           = 13
	opMulti           = 14
	opCreate2         = 15
	opCreateContainer = 19
	opDeleteContainer = 20
	opAuth            = 100
	opSetWatches      = 101
	opGetEphemerals   = 103
	opAddWatch        = 106
	opCreateSession   = -10
	opCloseSession    = -11
	opError           = -1
)

// Its error codes.
const (
	errInconsistency = -2
	errMarshalling   = -5
	errUnimplemented = -6
	errBadArguments  = -8
	errNoNode        = -101
	errNoAuth        = -102
	errBadVersion    = -103
	errNoChildren    = -108 // of an ephemeral node
	errNodeExists    = -110
	errNotEmpty      = -111
	errExpired       = -112
	errInvalidACL    = -114
	errAuthFailed    = -115
	errMoved         = -118
	errThrottled     = -127
)

const (
	xidEvent = -1
	xidPing  = -2
)

// Flags of a create.
const (
	flagEphemeral  = 1
	flagSequential = 2
	flagContainer  = 4
)

// eventType is what a watch tells.
type eventType int32

const (
	nodeCreated eventType = iota + 1
	nodeDeleted
	dataChanged
	childrenChanged
)

func (t eventType) String() string {
	return [...]string{"none", "created", "deleted", "data", "children"}[t]
}

// encoder writes what a member says.
type encoder struct{ b []byte }

func (e *encoder) int(v int32)  { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) long(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }
func (e *encoder) bytes(v []byte) {
	if v == nil {
		e.int(-1)
		return
	}
	e.int(int32(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) string(s string) {
	e.int(int32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) strings(all []string) {
	e.int(int32(len(all)))
	for _, s := range all {
		e.string(s)
	}
}

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) acl(all []ACL) {
	e.int(int32(len(all)))
	for _, a := range all {
		e.int(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
}

func (e *encoder) stat(s stat) {
	e.long(s.czxid)
	e.long(s.mzxid)
	e.long(s.ctime)
	e.long(s.mtime)
	e.int(s.version)
	e.int(s.cversion)
	e.int(s.aversion)
	e.long(s.owner)
	e.int(s.length)
	e.int(s.children)
	e.long(s.pzxid)
}

// frame puts the length before what was written.
func (e *encoder) frame() []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(e.b))), e.b...)
}

// decoder reads what a client says. What is missing reads as zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) next(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.bad, d.b = true, nil
		return nil
	}
	part := d.b[:n]
	d.b = d.b[n:]
	return part
}

func (d *decoder) int() int32 {
	if b := d.next(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) long() int64 {
	if b := d.next(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.next(1)
	return b != nil && b[0] != 0
}

func (d *decoder) string() string {
	n := d.int()
	if n == -1 {
		return ""
	}
	return string(d.next(int(n)))
}

func (d *decoder) bytes() []byte {
	n := d.int()
	if n == -1 {
		return nil
	}
	return append([]byte{}, d.next(int(n))...)
}

// count reads how many things follow, each of which takes at least so many bytes; -1 stands for none.
func (d *decoder) count(least int) int {
	n := int(d.int())
	if n == -1 {
		return 0
	}
	if n < 0 || n > len(d.b)/least {
		d.bad, d.b = true, nil
		return 0
	}
	return n
}

func (d *decoder) strings() (all []string) {
	for range d.count(4) {
		all = append(all, d.string())
	}
	return all
}

func (d *decoder) acl() (all []ACL) {
	for range d.count(12) {
		all = append(all, ACL{Perms: d.int(), Scheme: d.string(), ID: d.string()})
	}
	return all
}
