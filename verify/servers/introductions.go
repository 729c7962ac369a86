package servers

import (
	"encoding/binary"
	"strconv"

	"github.com/turnwise/turnwise/verify/faultproxy"
)

// introductions watches one member's election connections to another. A ZooKeeper member begins with its own address, and a
// member with a greater number hangs up and calls back at that address, past the proxies. So it is shown the address of the
// proxy that leads back instead.
type introductions struct {
	c        *Cluster
	from, to *Member
}

// An introduction is a version, the member's number, and its address with the length before it.
const (
	introVersion = -65536
	introHead    = 8 + 8 + 4
)

func (i introductions) Message(_ int, d faultproxy.Direction, data []byte) int {
	if d != faultproxy.ToServer || len(data) >= 8 && int64(binary.BigEndian.Uint64(data)) != introVersion {
		return len(data)
	}
	if len(data) < introHead {
		return 0
	}
	if size := introHead + int(binary.BigEndian.Uint32(data[16:])); len(data) >= size {
		return size
	}
	return 0
}

func (i introductions) Judge(_ int, d faultproxy.Direction, message []byte) faultproxy.Verdict {
	if d != faultproxy.ToServer || len(message) < introHead || int64(binary.BigEndian.Uint64(message)) != introVersion {
		return faultproxy.Verdict{}
	}
	port, err := i.c.via(i.to, i.from, "election")
	if err != nil {
		return faultproxy.Verdict{Cut: true}
	}
	addr := "127.0.0.1:" + strconv.Itoa(port)
	instead := binary.BigEndian.AppendUint32(append([]byte(nil), message[:16]...), uint32(len(addr)))
	return faultproxy.Verdict{Instead: append(instead, addr...)}
}
