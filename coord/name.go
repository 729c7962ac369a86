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
	// MaxData is how many bytes a node can carry.
	MaxData = 64 << 10

	maxName    = 1024
	maxSegment = 255
)

// CheckName reports why a line cannot have this name, or nil. A name is one or more segments split by slashes, of 1
// to 255 bytes each and 1,024 in all: valid UTF-8 without control characters and without those that are not seen or turn
// the direction of text (Unicode's formatting characters, its separators of lines and paragraphs, and what is ignorable
// by default), no segment being "." or "..". The rule is the same for every service: a name that works on one works on all.
//
// Names are compared byte by byte. So names that look alike are different lines: the "a" of Latin and the "а" of
// Cyrillic, "é" in one character or in two, a space and a no-break space. Where a name comes from a person, normalize it,
// or allow only the characters that you need.
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

// unseen reports whether a character shows nothing of itself but may change how others are shown, or that they differ.
func unseen(r rune) bool {
	return r >= 0x80 && unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Printable is what to show of text that others wrote: labels, hosts, names of lines, values. Characters that would
// move the cursor, turn the direction or stay invisible are escaped as in Go's strings, and so is the backslash.
func Printable(text string) string { return safe(strings.ReplaceAll(text, `\`, `\\`)) }

// safe is Printable for text that has been put together from ours and others': it leaves backslashes alone.
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
