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
type vetted struct {
	net.Conn
	line  []byte // of what has not ended yet
	rest  int64  // of a message that has been announced
	begun bool   // the server's first line is over
	plain bool   // what comes is not vetted
	err   error  // why nothing more is let through
}

const (
	// maxLine is the longest first line of a server, and maxHead the longest of those that announce a message.
	maxLine = 1 << 20
	maxHead = 16 << 10

	// maxMessage is the largest message: a page of the subjects that a stream has.
	maxMessage = 64 << 20
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
	for len(b) > 0 && !v.plain {
		if v.rest > 0 {
			n := min(int64(len(b)), v.rest)
			v.rest -= n
			b = b[n:]
			continue
		}
		// TLS begins with a byte that no line of the server does, and that the library takes for nothing else.
		if v.begun && len(v.line) == 0 && (b[0] == 0x15 || b[0] == 0x16) {
			v.plain = true
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
		if err := v.take(bytes.TrimRight(v.line, "\r\n")); err != nil {
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
	words := bytes.Fields(line)
	if len(words) == 0 {
		return nil
	}
	verb := string(bytes.ToUpper(words[0]))
	switch {
	case !v.begun && verb != "INFO":
		return errors.New("what answers there is not NATS")
	case verb != "MSG" && verb != "HMSG":
		return nil
	}
	n, err := strconv.ParseInt(string(words[len(words)-1]), 10, 64)
	if err != nil || n < 0 || n > maxMessage {
		return fmt.Errorf("the server announces a message of %.20q bytes", words[len(words)-1])
	}
	v.rest = n + 2
	return nil
}
