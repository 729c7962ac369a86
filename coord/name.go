package coord

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/turnwise/turnwise/coord/driver"
)

const (
	// MaxData is how many bytes of data a node can carry.
	MaxData = 64 << 10

	maxName    = 1024
	maxSegment = 255
)

// CheckName returns an error that says why a line cannot have this name, or nil if it can. A name is one or more
// segments separated by slashes, each of 1 to 255 bytes, and 1,024 bytes in all. It is valid UTF-8 without control
// characters, and without characters that are invisible or change the direction of text (Unicode's formatting
// characters, its line and paragraph separators, and what is ignorable by default). No segment is "." or "..". The rule
// is the same for every service: a name that works on one works on all.
//
// Names are compared byte by byte, so names that look alike can be different lines: the Latin "a" and the Cyrillic "а",
// "é" as one character or as two, a space and a no-break space. If a name comes from a person, normalize it, or allow
// only the characters that you need.
func CheckName(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("turnwise: %w", err)
	}
	return nil
}

func checkName(name string) error {
	bad := func(why string) error {
		return fmt.Errorf("%w %q: %s", ErrInvalidName, shorten(name), why)
	}
	switch {
	case name == "":
		return bad("it is empty")
	case len(name) > maxName:
		return bad(fmt.Sprintf("it has %d bytes, at most %d are allowed", len(name), maxName))
	case !utf8.ValidString(name):
		return bad("it is not valid UTF-8")
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return bad("it has a control character")
	case strings.IndexFunc(name, unseen) >= 0:
		return bad("it has a character that is not seen")
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "":
			return bad("it has an empty segment: no slash at either end, and no two in a row")
		case segment == "." || segment == "..":
			return bad("a segment is " + segment)
		case len(segment) > maxSegment:
			return bad(fmt.Sprintf("a segment has %d bytes, at most %d are allowed", len(segment), maxSegment))
		}
	}
	return nil
}

// unseen reports whether a character is invisible, but may change how others are shown or make names differ that look
// alike.
func unseen(r rune) bool {
	return r >= 0x80 && unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Printable returns text that others wrote (labels, hosts, names of lines, values) in a form that is safe to show.
// Characters that would move the cursor, change the direction of text or stay invisible are escaped as in Go's strings,
// and so is the backslash.
func Printable(text string) string { return safe(strings.ReplaceAll(text, `\`, `\\`)) }

// safe is Printable for text that is partly ours and partly others': it leaves backslashes alone.
func safe(text string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) || unseen(r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case hidden(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}

func shorten(name string) string {
	if len(name) > 64 {
		return name[:61] + "..."
	}
	return name
}

func checkEntry(kind string, data []byte, rule Rule) error {
	switch {
	case !driver.ValidKind(kind):
		return fmt.Errorf("%w: kind %q: 1 to %d letters and digits", ErrInvalid, shorten(kind), driver.MaxKind)
	case len(data) > MaxData:
		return fmt.Errorf("%w: %d bytes of data, at most %d are allowed", ErrInvalid, len(data), MaxData)
	case rule.WaitFor == nil:
		return fmt.Errorf("%w: the rule has no WaitFor", ErrInvalid)
	}
	return nil
}
