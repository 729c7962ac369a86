package driver

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// A note is what a node carries at the service: a line of text that shows an operator, in the service's own tool, who
// stands there, followed by the owner's data as it is.
//
//	turnwise 1 "host" 4711 "label" 2026-01-02T15:04:05.123Z
//
// It is encoded by hand rather than as JSON because every acquire writes one.
const noteHead = "turnwise 1 "

const noteTime = "2006-01-02T15:04:05.000Z"

// EncodeNote returns the bytes to store with a node.
func EncodeNote(o Owner, data []byte) []byte {
	b := make([]byte, 0, len(noteHead)+len(o.Host)+len(o.Label)+len(data)+48)
	b = append(b, noteHead...)
	b = strconv.AppendQuote(b, o.Host)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(o.PID), 10)
	b = append(b, ' ')
	b = strconv.AppendQuote(b, o.Label)
	b = append(b, ' ')
	b = o.Since.UTC().AppendFormat(b, noteTime)
	b = append(b, '\n')
	return append(b, data...)
}

// DecodeNote takes a note apart. Bytes that are not a note come from a foreign contender: the Owner is empty, and they
// are all Data.
func DecodeNote(b []byte) (Owner, []byte) {
	rest, ok := bytes.CutPrefix(b, []byte(noteHead))
	if !ok {
		return Owner{}, nonEmpty(b)
	}
	text, data, ok := bytes.Cut(rest, []byte{'\n'})
	if !ok {
		return Owner{}, nonEmpty(b)
	}
	o, ok := parseOwner(string(text))
	if !ok {
		return Owner{}, nonEmpty(b)
	}
	return o, nonEmpty(data)
}

func parseOwner(s string) (o Owner, ok bool) {
	if o.Host, s, ok = cutQuoted(s); !ok {
		return Owner{}, false
	}
	pid, s, ok := strings.Cut(s, " ")
	if !ok {
		return Owner{}, false
	}
	var err error
	if o.PID, err = strconv.Atoi(pid); err != nil {
		return Owner{}, false
	}
	if o.Label, s, ok = cutQuoted(s); !ok {
		return Owner{}, false
	}
	if o.Since, err = time.Parse(noteTime, s); err != nil {
		return Owner{}, false
	}
	return o, true
}

// cutQuoted splits off a quoted string at the start of s and the space behind it.
func cutQuoted(s string) (value, rest string, ok bool) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", false
	}
	if value, err = strconv.Unquote(q); err != nil {
		return "", "", false
	}
	rest = s[len(q):]
	if len(rest) == 0 || rest[0] != ' ' {
		return "", "", false
	}
	return value, rest[1:], true
}

func nonEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
