package httpfence

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// Header is the name of the HTTP header that carries stamps.
const Header = "Turnwise-Token"

// Set puts the stamp of a line into the header, and replaces one that is there for the same line.
func Set(h http.Header, line string, s fence.Stamp) {
	v := url.Values{"line": {line}, "token": {strconv.FormatInt(int64(s.Token), 10)}}
	if s.Epoch != 0 {
		v.Set("epoch", strconv.FormatUint(uint64(s.Epoch), 10))
	}
	var kept []string
	for _, other := range entries(h) {
		if of, _, err := parse(other); err != nil || of != line {
			kept = append(kept, other)
		}
	}
	h[Header] = append(kept, v.Encode())
}

// entries returns the values of the header, which a proxy may have joined with commas.
func entries(h http.Header) (all []string) {
	for _, value := range h.Values(Header) {
		for entry := range strings.SplitSeq(value, ",") {
			if entry = strings.TrimSpace(entry); entry != "" {
				all = append(all, entry)
			}
		}
	}
	return all
}

// find returns the stamp of a line. The whole header must make sense.
func find(h http.Header, line string) (s fence.Stamp, there bool, err error) {
	for _, entry := range entries(h) {
		of, its, err := parse(entry)
		switch {
		case err != nil:
			return s, false, err
		case of != line:
		case there && its != s:
			return s, false, fmt.Errorf("two tokens for %q", line)
		default:
			s, there = its, true
		}
	}
	return s, there, nil
}

func parse(entry string) (line string, s fence.Stamp, err error) {
	bad := func(why string) (string, fence.Stamp, error) {
		return "", fence.Stamp{}, fmt.Errorf("%q: %s; write line=NAME&token=NUMBER", coord.Printable(entry), why)
	}
	values, err := url.ParseQuery(entry)
	if err != nil {
		return bad("it is not written like a query")
	}
	for key, v := range values {
		switch {
		case len(v) != 1:
			return bad(key + " is there twice")
		case key != "line" && key != "token" && key != "epoch":
			return bad("there is no " + key)
		}
	}
	line = values.Get("line")
	if err := coord.CheckName(line); err != nil {
		return bad("the line has no name that it could have")
	}
	token, err := strconv.ParseInt(values.Get("token"), 10, 64)
	if err != nil || token <= 0 {
		return bad("the token is no number above zero")
	}
	epoch := uint64(0)
	if values.Has("epoch") {
		if epoch, err = strconv.ParseUint(values.Get("epoch"), 10, 32); err != nil {
			return bad("the epoch is no number from 0 to 4294967295")
		}
	}
	return line, fence.Stamp{Epoch: uint32(epoch), Token: coord.Token(token)}, nil
}
