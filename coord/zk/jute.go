package zk

import (
	"encoding/binary"

	gozk "github.com/go-zookeeper/zk"
)

// encoder writes what a request says, in ZooKeeper's own encoding.
type encoder struct{ b []byte }

func (e *encoder) int(v int32)  { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) long(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) string(s string) {
	e.int(int32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) bytes(v []byte) {
	e.int(int32(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) strings(all []string) {
	e.int(int32(len(all)))
	for _, s := range all {
		e.string(s)
	}
}

func (e *encoder) acl(all []gozk.ACL) {
	e.int(int32(len(all)))
	for _, a := range all {
		e.int(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
}

// decoder reads an answer. What is too short reads as nothing, and says so at the end.
type decoder struct {
	b     []byte
	short bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.short, d.b = true, nil
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) int() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) long() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

func (d *decoder) string() string { return string(d.take(int(d.int()))) }

func (d *decoder) strings() []string {
	n := d.int()
	if n <= 0 {
		return nil
	}
	all := make([]string, 0, min(int(n), len(d.b)/4))
	for range n {
		if d.short {
			break
		}
		all = append(all, d.string())
	}
	return all
}
