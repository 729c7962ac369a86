package register

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"
)

// What stands beside the lines is read by everybody, too.
func TestWhatWeCannotHaveWrittenBesideALineIsRefused(t *testing.T) {
	number := func(n uint64, more ...byte) []byte { return append(binary.AppendUvarint([]byte{format}, n), more...) }
	for name, value := range map[string][]byte{
		"nothing": {}, "half": {format}, "another format": {format + 100, 1}, "zero": number(0), "more": number(3, 0),
		"the greatest number": number(math.MaxUint64), "tokens beyond all": number(maxToken>>tokenBits + 1), "a number without end": append([]byte{format}, strings.Repeat("\xff", 20)...),
	} {
		if n, ok := parseEpoch(value); ok {
			t.Errorf("%s is the epoch %d", name, n)
		}
	}
	for _, n := range []uint64{1, 7, maxToken >> tokenBits} {
		if got, ok := parseEpoch(number(n)); !ok || got != n || firstToken(got) > maxToken || epochOf(firstToken(got)) != n {
			t.Errorf("epoch %d is read as %d, %v", n, got, ok)
		}
	}
	for name, value := range map[string][]byte{
		"nothing": {}, "another format": {format + 100, 1}, "more": number(1000, 0), "a TTL of centuries": number(1 << 50),
		"a TTL that is negative as a duration": number(math.MaxInt64 / 1000), "one that wraps around": number(1<<63/1_000_000 + 1),
	} {
		if ttl, ok := parseSettings(value); ok {
			t.Errorf("%s is the TTL %v", name, ttl)
		}
	}
	for _, ttl := range []time.Duration{MinTTL, 24 * time.Hour} {
		if got, ok := parseSettings(number(uint64(ttl.Milliseconds()))); !ok || got != ttl {
			t.Errorf("a TTL of %v is read as %v, %v", ttl, got, ok)
		}
	}
}

// FuzzBeside reads what stands in registers that are no lines, and the names of registers and nodes. Whatever it is, a number
// of ours comes of it or nothing.
func FuzzBeside(f *testing.F) {
	for _, seed := range []string{"", "\x01", "\x01\x01", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x01\x90\x4e", "\x01\x90\x4e\xc8\x01\x05",
		string(make([]byte, 8)), string(make([]byte, 8+32)), string(make([]byte, 8+9*32)),
		"session/00112233445566ff", "00112233445566ff-1.2", "00112233445566FF-01.+2", "suspect/00112233445566ff-", strings.Repeat("f", 1000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, ok := parseEpoch(b); ok && (n == 0 || firstToken(n) > maxToken || firstSeq(n)>>36 != n) {
			t.Errorf("%x is the epoch %d", b, n)
		}
		if ttl, ok := parseSettings(b); ok && (ttl < 0 || ttl > mostTTL) {
			t.Errorf("%x is the TTL %v", b, ttl)
		}
		if h, ok := parseHeartbeat(b); ok && h.ttl < 0 {
			t.Errorf("%x is a heartbeat of a session with the TTL %v", b, h.ttl)
		}
		if s, ok := parseSuspicion(b, Version{}); ok {
			if len(s.seen) > mostMachines || !bytes.Equal(s.encode(), b) {
				t.Errorf("%x is a suspicion of %d machines, which is %x", b, len(s.seen), s.encode())
			}
			for _, at := range s.seen {
				s.since(at, time.Second)
			}
		}
		if id, ok := parseSessionID(string(b)); ok && id.String() != strings.ToLower(string(b)) {
			t.Errorf("%q is the session %v", b, id)
		}
		if id, ok := parseNodeID(string(b)); ok {
			if again, ok := parseNodeID(id.String()); !ok || again != id {
				t.Errorf("%q is the node %v, and that is %v", b, id, again)
			}
		}
		sessionOf(string(b))
	})
}
