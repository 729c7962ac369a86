package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/turnwise/turnwise/coord"
)

// JSON returns one of our own types as a line of JSON. Whatever others wrote into it, the line is safe to show on a terminal
// and within a page: what would move the cursor, change the direction of text, stay invisible or begin a tag is escaped.
func JSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(seen(text), '\n')
}

// seen escapes, in a text of JSON, what is not to be seen. The encoder has done so with what is below a blank.
func seen(text []byte) []byte {
	if bytes.IndexFunc(text, func(r rune) bool { return r >= 0x7f }) < 0 {
		return text
	}
	all := make([]byte, 0, len(text))
	for _, r := range string(text) {
		high, low := utf16.EncodeRune(r)
		switch {
		case r < 0x7f || r > 0x7f && coord.Printable(string(r)) == string(r):
			all = utf8.AppendRune(all, r)
		case high != utf8.RuneError:
			all = fmt.Appendf(all, `\u%04x\u%04x`, high, low)
		default:
			all = fmt.Appendf(all, `\u%04x`, r)
		}
	}
	return all
}
