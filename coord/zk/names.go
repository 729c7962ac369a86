package zk

import (
	"strings"
	"unicode/utf8"
)

// path is the directory of a line. What ZooKeeper does not take in a path is written as %XX, and so is what would
// make a segment look like a contender of the line it is nested in: line "a" must not care for a line "a/b",
// whatever b is called. No other name changes, so that other tools find the lines where they expect them.
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

// encodeSegment is one segment of a line's name as a node's name. At the top of the service's tree one is taken.
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

// decodeSegment is the way back; ok is false for names that no segment is encoded as.
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
	return segment, utf8.ValidString(segment) && encodeSegment(segment, top) == name
}

// escape writes what ZooKeeper or its Go client refuse as %XX. The service thinks in UTF-16 and takes no surrogates,
// so runes above U+FFFF cannot be written as they are.
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
