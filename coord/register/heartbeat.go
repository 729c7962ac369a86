package register

import (
	"encoding/binary"
	"math"
	"time"
)

// heartbeat is what stands in a session's register: format, TTL in ms, the owner's wall clock in ms, the number of
// renewals; and the rest only if it rests, or if it was called.
type heartbeat struct {
	ttl      time.Duration // nobody ends it before it has not been renewed for so long
	at       time.Time     // by the owner's wall clock
	renewals uint64
	usual    time.Duration // the TTL when it does not rest; zero: it does not
	called   Version       // at which it was called; zero: it was not
}

// mostHeartbeat is more than one takes.
const mostHeartbeat = 64

func (h heartbeat) rests() bool { return h.usual > 0 }

func (h heartbeat) encode() []byte {
	b := binary.AppendUvarint([]byte{format}, uint64(h.ttl.Milliseconds()))
	b = binary.AppendVarint(b, h.at.UnixMilli())
	b = binary.AppendUvarint(b, h.renewals)
	if h.rests() || !h.called.IsZero() {
		b = binary.AppendUvarint(b, uint64(h.usual.Milliseconds()))
		b = append(b, h.called[:]...)
	}
	return b
}

func parseHeartbeat(value []byte) (h heartbeat, ok bool) {
	r := reader{rest: value}
	f := r.byte()
	h.ttl = r.milliseconds()
	h.at = time.UnixMilli(r.signed())
	h.renewals = r.number()
	if len(r.rest) > 0 {
		h.usual = r.milliseconds()
		copy(h.called[:], r.take(len(h.called)))
	}
	return h, f == format && !r.bad
}

func (r *reader) milliseconds() time.Duration {
	return time.Duration(min(r.number(), math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}

// age is how long ago a session was renewed, by the wall clocks of its owner and of this process.
func (h heartbeat) age(now time.Time) time.Duration { return now.Round(0).Sub(h.at) }

// isOverdue reports whether a session that rests should have been renewed by now, by clocks that may be wrong.
func (h heartbeat) isOverdue(it Item) bool {
	age := h.age(time.Now())
	return h.rests() && (max(age, it.Age) > h.patience() || age < -h.usual)
}

// patience is how long a session that rests may stand still before it seems late.
func (h heartbeat) patience() time.Duration { return h.ttl/renewals + h.usual }
