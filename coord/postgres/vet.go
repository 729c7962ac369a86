package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// A vetted reader lets through only what fits our statements. The client library makes room for as long a message as a server
// announces, keeps all the parameters that it tells of, and computes for as long as it asks, whatever becomes of the context. So
// a server that lies would end the process; here it ends the connection. The bytes are those behind TLS.
type vetted struct {
	io.Reader
	asked *atomic.Bool // something was sent since rows were counted

	header [5]byte
	have   int             // of the header
	left   int             // of the message's body
	text   []byte          // how the body begins, of a parameter or a challenge
	told   map[string]bool // the names of parameters
	ready  bool            // somebody was let in
	before int             // bytes until then
	rows   int             // bytes of rows since something was asked
	err    error
}

const (
	maxRow      = 2*(32<<20) + 1<<20 // a line as hexadecimal digits, and what stands beside it
	maxRowBytes = 512 << 20          // a page of registers
	maxOther    = 1 << 20            // a message that is no row, and all before somebody is let in
	maxNames    = 256
	maxSetting  = 16 << 10 // a parameter and its name: the library keeps them
	maxNameLen  = 256
	maxText     = 4 << 10   // a challenge
	maxRounds   = 1_000_000 // of SCRAM: some seconds at most. A server has 4096 unless it is told otherwise
)

// vet has the connections of a configuration vetted.
func vet(cc *pgx.ConnConfig) {
	build := cc.BuildFrontend
	cc.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		asked := new(atomic.Bool)
		return build(&vetted{Reader: r, asked: asked, told: make(map[string]bool)}, asking{w, asked})
	}
}

// asking notes that something is asked.
type asking struct {
	io.Writer
	asked *atomic.Bool
}

func (a asking) Write(b []byte) (int, error) {
	a.asked.Store(true)
	return a.Writer.Write(b)
}

func (v *vetted) Read(b []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.Reader.Read(b)
	if v.asked.Swap(false) {
		v.rows = 0
	}
	for i := 0; i < n && v.err == nil; {
		i += v.take(b[i:n])
	}
	if v.err != nil {
		return 0, v.err
	}
	return n, err
}

// take looks at some bytes of a message, and returns how many.
func (v *vetted) take(b []byte) int {
	if v.have < len(v.header) {
		n := copy(v.header[v.have:], b)
		if v.have += n; v.have == len(v.header) {
			v.begins()
		}
		return n
	}
	n := min(len(b), v.left)
	if v.header[0] == 'S' || v.header[0] == 'R' {
		v.text = append(v.text, b[:min(n, maxText+1-len(v.text))]...)
	}
	if v.left -= n; v.left == 0 {
		v.ended()
	}
	return n
}

// begins looks at the header of a message.
func (v *vetted) begins() {
	length := int(int32(binary.BigEndian.Uint32(v.header[1:]))) - 4
	v.left, v.text = length, v.text[:0]
	most := maxOther
	switch {
	case v.header[0] == 'D' && v.ready:
		most = maxRow
		v.rows += length
	case v.header[0] == 'S':
		most = maxSetting
	}
	if !v.ready {
		v.before += length + len(v.header)
	}
	switch {
	case length < 0 || length > most:
		v.err = fmt.Errorf("the server announces a message (%q) of %d bytes, and %d are the most", v.header[0], length, most)
	case v.before > maxOther:
		v.err = fmt.Errorf("the server says more than %d bytes before it lets anybody in", maxOther)
	case v.rows > maxRowBytes:
		v.err = fmt.Errorf("the server answers with more than %d bytes", maxRowBytes)
	case length == 0:
		v.ended()
	}
}

// ended is called when a message is whole.
func (v *vetted) ended() {
	v.have = 0
	switch v.header[0] {
	case 'Z':
		v.ready = true
	case 'S':
		name, _, _ := bytes.Cut(v.text, []byte{0})
		v.told[string(name)] = true
		if len(name) > maxNameLen || len(v.told) > maxNames {
			v.err = fmt.Errorf("the server tells of more than %d parameters, or of one with a long name", maxNames)
		}
	case 'R':
		v.challenged()
	}
}

// challenged looks at what a server asks before it lets anybody in. A challenge of SCRAM says at its end in how many rounds the
// password is to be hashed.
func (v *vetted) challenged() {
	const scram = "\x00\x00\x00\x0b"
	if !bytes.HasPrefix(v.text, []byte(scram)) {
		return
	}
	at := bytes.LastIndex(v.text, []byte(",i="))
	rounds, _ := strconv.Atoi(string(v.text[at+len(",i="):])) // if that is no number, the library refuses it
	if len(v.text) > maxText || at > 0 && rounds > maxRounds {
		v.err = storekit.Denied("the server wants the password hashed in more than %d rounds, or says something else at length", maxRounds)
	}
}
