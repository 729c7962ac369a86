package nats

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// vetted lets through only what a server can have said: the client library believes lengths before it has logged in, and asks
// for as much memory. So a server that lies ends its connection, and not the process. What is encrypted is let through: who has
// got that far has shown a certificate.
//
// The library is generous: an end of a line counts in some places and not in others, and behind a message it passes over all that
// comes before the next one. A server that makes use of that has it begin to read a line in the middle of what is a message here.
// So whatever a server does not say in just this way is not let through.
type vetted struct {
	net.Conn
	line     []byte // of what has not ended yet
	rest     int64  // of a message that has been announced
	begun    bool   // the server's first line is over
	tlsFirst bool   // the server says nothing before TLS
	unvetted bool   // what comes is not vetted
	err      error  // why nothing more is let through
}

const (
	// maxLine is the longest first line of a server, and maxHead the longest of those that announce a message.
	maxLine = 1 << 20
	maxHead = 16 << 10

	// maxMessage is the largest message: a page of the subjects that a stream has.
	maxMessage = 64 << 20

	// maxHeaders is how much of a message its headers may be. What is made of short ones is twenty times as large.
	maxHeaders = 1 << 20
)

func (v *vetted) Read(b []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.Conn.Read(b)
	if v.err = v.vet(b[:n]); v.err != nil {
		v.Conn.Close()
		return 0, v.err
	}
	return n, err
}

func (v *vetted) vet(b []byte) error {
	for len(b) > 0 && !v.unvetted {
		if v.rest > 0 {
			n := min(int64(len(b)), max(v.rest-int64(len(lineEnd)), 1))
			if v.rest <= int64(len(lineEnd)) && b[0] != lineEnd[int64(len(lineEnd))-v.rest] {
				return errors.New("the server's message is longer than announced")
			}
			v.rest -= n
			b = b[n:]
			continue
		}
		// TLS begins with a byte that no line of the server does, and that the library takes for nothing else.
		if (v.begun || v.tlsFirst) && len(v.line) == 0 && (b[0] == 0x15 || b[0] == 0x16) {
			v.unvetted = true
			return nil
		}
		end := bytes.IndexByte(b, '\n')
		part := b[:end+1]
		if end < 0 {
			part = b
		}
		v.line = append(v.line, part...)
		b = b[len(part):]
		if most := v.most(); len(v.line) > most {
			return fmt.Errorf("the server's line has more than %d bytes", most)
		}
		if end < 0 {
			return nil
		}
		line, ended := bytes.CutSuffix(v.line, []byte(lineEnd))
		if !ended || bytes.IndexByte(line, '\r') >= 0 {
			return errors.New("the server's line does not end as lines do")
		}
		if err := v.take(line); err != nil {
			return err
		}
		v.line, v.begun = v.line[:0], true
	}
	return nil
}

func (v *vetted) most() int {
	if !v.begun || len(v.line) < 5 || bytes.EqualFold(v.line[:5], []byte("INFO ")) {
		return maxLine
	}
	return maxHead
}

// take looks at a line. One that announces a message ends with its length.
func (v *vetted) take(line []byte) error {
	verb, says, more := bytes.Cut(line, []byte(" "))
	switch string(verb) {
	case "INFO", "-ERR", "MSG", "HMSG":
		if !more || len(says) == 0 || says[0] == ' ' || says[0] == '\t' {
			return fmt.Errorf("the server says %q and no more", verb)
		}
	case "PING", "PONG", "+OK":
		if more {
			return fmt.Errorf("the server says more than %q", verb)
		}
	default:
		return fmt.Errorf("%w: it says %.20q", errNotNATS, verb)
	}
	if !v.begun && string(verb) != "INFO" {
		return errNotNATS
	}
	if !bytes.HasSuffix(verb, []byte("MSG")) {
		return nil
	}
	length := says[bytes.LastIndexByte(says, ' ')+1:]
	n, err := strconv.ParseUint(string(length), 10, 63)
	if err != nil || n > maxMessage {
		return fmt.Errorf("the server announces a message of %.20q bytes", length)
	}
	if words := bytes.Fields(says); string(verb) == "HMSG" && len(words) > 2 {
		if n, err := strconv.ParseUint(string(words[len(words)-2]), 10, 63); err != nil || n > maxHeaders {
			return fmt.Errorf("the server announces headers of %.20q bytes", words[len(words)-2])
		}
	}
	v.rest = int64(n) + int64(len(lineEnd))
	return nil
}

const lineEnd = "\r\n"

var errNotNATS = errors.New("what answers there is not NATS")
