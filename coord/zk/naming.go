package zk

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Names says how nodes are named. Whatever the setting, contenders with any of these names count, so processes with
// different settings or tools exclude each other as far as those tools allow.
type Names int

const (
	// GoLock names nodes as zk.Lock in github.com/go-zookeeper/zk does. It is the default. zk.Lock reads no other names than those
	// of locks: where a reader, a permit or a leader stands it fails and leaves its node behind. It can read all of Curator's.
	GoLock Names = iota

	// Curator names nodes as InterProcessMutex and InterProcessReadWriteLock in Apache Curator do. The nodes of its
	// LeaderLatch and of its semaphores' leases count as exclusive, but those tools do not see ours: give them lines of
	// their own.
	Curator

	// Kazoo names nodes as Lock, ReadLock and WriteLock in Python's Kazoo do. Directories are then plain nodes that stay,
	// as Kazoo's own do. Its plain Lock does not see readers and enters beside them: where there are readers, use its
	// WriteLock. Its ReadLock, at least up to 2.8.0, also waits for writers behind it, while they wait for it, forever
	// (python-zk/kazoo#649).
	Kazoo
)

// contender is what a node's name tells.
type contender struct {
	guid string // 32 hex digits
	kind string
	seq  int32 // as the service counts: may be negative
	way  Names
}

// prefix is the name that a node is created with; the service adds the number.
//
//	GoLock    _c_<guid>-<kind>-
//	Curator   _c_<guid with dashes>-lock-    -__READ__    -__WRIT__    -<any other kind>-lock-
//	Kazoo     <guid>__lock__                 __rlock__    -<any other kind>__lock__
//
// Curator sorts by what follows the last "lock-", "__READ__" or "__WRIT__", Kazoo by what follows the last "__lock__"
// or "__rlock__", whatever stands before it. So they also wait for nodes of kinds that they do not have, and we still know
// the kind.
func (c contender) prefix() string {
	switch c.way {
	case Curator:
		id := "_c_" + c.guid[:8] + "-" + c.guid[8:12] + "-" + c.guid[12:16] + "-" + c.guid[16:20] + "-" + c.guid[20:] + "-"
		switch c.kind {
		case rules.Lock:
			return id + "lock-"
		case rules.Reader:
			return id + "__READ__"
		case rules.Writer:
			return id + "__WRIT__"
		}
		return id + c.kind + "-lock-"
	case Kazoo:
		switch c.kind {
		case rules.Lock:
			return c.guid + "__lock__"
		case rules.Reader:
			return c.guid + "__rlock__"
		}
		return c.guid + "-" + c.kind + "__lock__"
	}
	return "_c_" + c.guid + "-" + c.kind + "-"
}

// name is the whole name, with the number as the service writes it.
func (c contender) name() string { return c.prefix() + fmt.Sprintf("%010d", c.seq) }

// rank orders the contenders of a line. The number goes from 2147483647 to -2147483648 on servers before 3.6.
func (c contender) rank() uint32 { return uint32(c.seq) }

// lastNumbers is how many numbers at the end of a line's counter we do not use. The counter ends at 2147483647. Servers
// before 3.6 went on at -2147483648; newer ones stick there, and then a newcomer has the same number as the holder
// (ZOOKEEPER-3249). Those already in line need no new numbers, so there is room for this many latecomers at once.
const lastNumbers = 1 << 20

func nearEnd(_ string, seq int32) bool {
	return seq >= 1<<31-1-lastNumbers || seq < 0 && seq >= -lastNumbers
}

// parseContender takes a node's name apart; ok is false if it is no contender's.
func parseContender(name string) (c contender, ok bool) {
	head, seq, ok := cutNumber(name)
	if !ok {
		return contender{}, false
	}
	c.seq = seq
	if rest, ok := strings.CutPrefix(head, "_c_"); ok {
		if c.guid, rest, ok = cutGUID(rest); ok {
			c.kind, ok = strings.CutSuffix(rest, "-")
			ok = ok && driver.ValidKind(c.kind)
		} else if c.guid, rest, ok = cutUUID(rest); ok {
			c.way = Curator
			c.kind, ok = curatorKind(rest)
		}
		return c, ok
	}
	c.way = Kazoo
	if len(head) < 32 || !isHex(head[:32]) {
		return contender{}, false
	}
	c.guid = head[:32]
	c.kind, ok = kazooKind(head[32:])
	return c, ok
}

func isContender(name string) bool {
	_, ok := parseContender(name)
	return ok
}

func curatorKind(s string) (string, bool) {
	switch s {
	case "lock-":
		return rules.Lock, true
	case "__READ__":
		return rules.Reader, true
	case "__WRIT__":
		return rules.Writer, true
	case "latch-", "lease-": // of LeaderLatch and InterProcessSemaphoreV2
		return strings.TrimSuffix(s, "-"), true
	}
	kind, ok := strings.CutSuffix(s, "-lock-")
	return kind, ok && driver.ValidKind(kind) && kind != rules.Lock && kind != rules.Reader && kind != rules.Writer
}

func kazooKind(s string) (string, bool) {
	switch s {
	case "__lock__":
		return rules.Lock, true
	case "__rlock__":
		return rules.Reader, true
	}
	kind, ok := strings.CutSuffix(s, "__lock__")
	if ok {
		kind, ok = strings.CutPrefix(kind, "-")
	}
	return kind, ok && driver.ValidKind(kind) && kind != rules.Lock && kind != rules.Reader
}

// cutNumber splits the service's number off a name. It is %010d of an int32, so a minus sign takes one of the ten places,
// and negative numbers of ten digits take an eleventh.
func cutNumber(name string) (head string, seq int32, ok bool) {
	cut := len(name) - 10
	if cut < 1 {
		return "", 0, false
	}
	head, digits := name[:cut], name[cut:]
	negative := digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	if !isDecimal(digits) {
		return "", 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return "", 0, false
	}
	if !negative && (strings.HasSuffix(head, "--") || strings.HasSuffix(head, "__-")) {
		head, negative = head[:len(head)-1], true
		if n < 1_000_000_000 {
			return "", 0, false
		}
	}
	if negative {
		n = -n
	}
	if n < math.MinInt32 || n > math.MaxInt32 || negative && n == 0 {
		return "", 0, false
	}
	return head, int32(n), true
}

// cutGUID splits "<32 hex>-" off, cutUUID "<8>-<4>-<4>-<4>-<12 hex>-".
func cutGUID(s string) (guid, rest string, ok bool) {
	if len(s) < 33 || s[32] != '-' || !isHex(s[:32]) {
		return "", s, false
	}
	return s[:32], s[33:], true
}

func cutUUID(s string) (guid, rest string, ok bool) {
	if len(s) < 37 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' || s[36] != '-' {
		return "", s, false
	}
	guid = s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	return guid, s[37:], isHex(guid)
}

func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if !hexDigit[s[i]] {
			return false
		}
	}
	return true
}

// hexDigit is a table because every name in every list is looked at.
var hexDigit = func() (is [256]bool) {
	for _, c := range "0123456789abcdef" {
		is[c] = true
	}
	return is
}()

func isDecimal(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) > 0
}

// looksLikeContender is true for all names that parseContender accepts, and for those that Kazoo would count, which looks
// only at the end of a name.
func looksLikeContender(name string) bool {
	head, _, ok := cutNumber(name)
	if !ok {
		return false
	}
	if strings.HasSuffix(head, "__lock__") || strings.HasSuffix(head, "__rlock__") {
		return true
	}
	_, ok = parseContender(name)
	return ok
}

func newGUID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// amendedByWriting reports whether an amendment that gives such a node another name also writes to it in the same
// transaction. Nodes of permits do not need that: they get another name with each turn, and the end of one alone lets
// nobody in.
func (c contender) amendedByWriting() bool { return !rules.IsPermits(c.kind) }

// inTurn reports whether such nodes hold one after another.
func (c contender) inTurn() bool { return c.kind != rules.Reader && !rules.IsPermits(c.kind) }

// path is the directory of a line. What ZooKeeper does not allow in a path is written as %XX, and so is what would make
// a segment look like a contender of the line it is nested in: a line "a/b" must not disturb line "a", whatever b is
// called. All other names stay as they are, so that other tools find the lines where they expect them.
func (c *config) path(line string) string {
	var b strings.Builder
	b.Grow(len(c.root) + 1 + len(line))
	b.WriteString(c.root)
	for segment := range strings.SplitSeq(line, "/") {
		top := b.Len() == 0
		b.WriteByte('/')
		b.WriteString(encodeSegment(segment, top))
	}
	return b.String()
}

// encodeSegment turns one segment of a line's name into a node's name. At the top of the service's tree, one name is
// already taken.
func encodeSegment(segment string, top bool) string {
	s := escape(segment)
	switch {
	case looksLikeContender(s):
		last := len(s) - 1
		return s[:last] + hexEscape(s[last])
	case top && s == "zookeeper", s == ".", s == "..":
		return hexEscape(s[0]) + s[1:]
	}
	return s
}

// decodeSegment is the reverse; ok is false for names that encodeSegment never makes.
func decodeSegment(name string, top bool) (segment string, ok bool) {
	if strings.IndexByte(name, '%') < 0 {
		return name, encodeSegment(name, top) == name
	}
	b := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b = append(b, name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		hi, lo := strings.IndexByte(hexDigits, name[i+1]), strings.IndexByte(hexDigits, name[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	segment = string(b)
	return segment, utf8.ValidString(segment) && !strings.Contains(segment, "/") && encodeSegment(segment, top) == name
}

// escape writes as %XX what ZooKeeper or its Go client refuses. The service works in UTF-16 and accepts no surrogates, so
// runes above U+FFFF cannot be written as they are.
func escape(segment string) string {
	if !strings.ContainsFunc(segment, refused) {
		return segment
	}
	var b strings.Builder
	for i, r := range segment {
		if !refused(r) {
			b.WriteRune(r)
			continue
		}
		_, n := utf8.DecodeRuneInString(segment[i:])
		for j := range n {
			b.WriteString(hexEscape(segment[i+j]))
		}
	}
	return b.String()
}

func refused(r rune) bool {
	switch {
	case r == '%', r == '/',
		r <= 0x1f,
		r >= 0x7f && r <= 0x9f,
		r >= 0xd800 && r <= 0xf8ff,
		r >= 0xfff0:
		return true
	}
	return false
}

const hexDigits = "0123456789ABCDEF"

func hexEscape(c byte) string { return string([]byte{'%', hexDigits[c>>4], hexDigits[c&15]}) }
