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
// to 255 bytes each and 1,024 in all: valid UTF-8 without control characters, no segment being "." or "..". The
// rule is the same for every service: a name that works on one works on all.
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

// Printable is what to show of text that others wrote: labels, hosts, names of lines, values. Characters that would
// move the cursor, turn the direction or stay invisible are escaped as in Go's strings, and so is the backslash.
func Printable(text string) string {
	q := strconv.Quote(text)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
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
