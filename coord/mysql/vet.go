package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

// A vetted connection lets through only what fits our statements. The client library makes room for as many columns as a
// server announces, before anything else is known of them, and joins packets without end. So a server that lies would end
// the process; here it ends the connection. Behind TLS nothing can be seen, and the server is the one that was asked for.
type vetted struct {
	net.Conn
	secure bool // TLS is wanted

	mu     sync.Mutex // the library writes and reads in turn, but closes at any time
	hidden bool       // TLS has begun
	asked  bool       // a command was sent
	query  bool       // the next packet begins the answer to a query
	packet packet
	joined int // bytes of packets that belong together
	said   int // bytes since the last command
	err    error
}

// packet is the one under way.
type packet struct {
	header [4]byte
	begun  int // bytes of it so far, with the header
	size   int // of its body
	first  byte
	zero   int // where in the body its first zero byte behind the first byte is
	number int // on this connection, from 0
}

const (
	maxRow     = 33 << 20  // a line, and what stands beside it
	maxAnswer  = 256 << 20 // a page of registers
	maxColumns = 64
	whole      = 1<<24 - 1 // a packet of this size is continued in the next
)

// vet has the library's connections vetted, but for networks that the program has registered: only the library can dial
// those, and it does not if there is a DialFunc.
func vet(cfg *mysql.Config) {
	dial := cfg.DialFunc
	if dial == nil && cfg.Net != "tcp" && cfg.Net != "unix" {
		return
	}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dial == nil {
			dial = (&net.Dialer{}).DialContext
		}
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		v := &vetted{Conn: c, secure: cfg.TLS != nil}
		if to, ok := ctx.Value(vettedKey{}).(**vetted); ok {
			*to = v
		}
		return v, nil
	}
}

// vettedKey is where a ctx says who wants to know the vetted connection. The library tells nobody why a connection failed.
type vettedKey struct{}

// wrong returns what was wrong with what the server has said.
func (v *vetted) wrong() error {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// SyscallConn is for the library, which looks whether the server has hung up.
func (v *vetted) SyscallConn() (syscall.RawConn, error) {
	if c, ok := v.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Write is called with whole packets.
func (v *vetted) Write(b []byte) (int, error) {
	v.mu.Lock()
	if !v.hidden && len(b) > 4 {
		v.said = 0
		v.query = b[3] == 0 && b[4] == 3                 // COM_QUERY
		v.hidden = v.secure && b[3] == 1 && len(b) == 36 // a request for TLS, and no answer to the greeting
	}
	v.mu.Unlock()
	return v.Conn.Write(b)
}

func (v *vetted) Read(b []byte) (int, error) {
	n, err := v.Conn.Read(b)
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := 0; i < n && !v.hidden && v.err == nil; {
		i += v.take(b[i:n])
	}
	if v.err != nil {
		return 0, v.err
	}
	return n, err
}

// take looks at some bytes of a packet, and returns how many.
func (v *vetted) take(b []byte) int {
	p := &v.packet
	if p.begun < len(p.header) {
		p.header[p.begun] = b[0]
		if p.begun++; p.begun == len(p.header) {
			p.size = int(p.header[0]) | int(p.header[1])<<8 | int(p.header[2])<<16
			v.joined += p.size
			v.said += p.size
			if v.joined > maxRow || v.said > maxAnswer {
				v.refuse("it says more than a table of ours can hold (%d bytes)", max(v.joined, v.said))
			}
			v.ended()
		}
		return 1
	}
	at := p.begun - len(p.header)
	n := min(len(b), p.size-at)
	if at == 0 {
		p.first = b[0]
		if v.begins(); v.err != nil {
			return n
		}
	}
	for i := 0; i < n && p.number == 0 && p.zero == 0; i++ {
		if b[i] == 0 {
			p.zero = at + i
		}
	}
	p.begun += n
	v.ended()
	return n
}

// begins looks at the first byte of a packet's body.
func (v *vetted) begins() {
	switch first := v.packet.first; {
	case first == 0xff && v.packet.size < 4:
		v.refuse("an error without a text")
	case first == 0 && v.packet.size < 7 && (v.query || !v.asked):
		v.refuse("an end that ends too soon")
	case !v.query:
	case first == 0xfb:
		v.refuse("it wants a file of ours")
	case first != 0 && first != 0xff && first > maxColumns:
		v.refuse("an answer of more than %d columns", maxColumns)
	}
	v.query = false
}

// ended begins the next packet if this one is whole.
func (v *vetted) ended() {
	p := &v.packet
	if p.begun < len(p.header)+p.size {
		return
	}
	if p.number == 0 && v.err == nil && p.size > 0 {
		v.greeted()
	}
	if p.size < whole {
		v.joined = 0
	}
	v.packet = packet{number: p.number + 1}
}

// greeted refuses a greeting that ends too soon: the library would look beyond its end.
func (v *vetted) greeted() {
	const rest = 1 + 4 + 8 + 1 + 2 + 3 + 2 + 7 + 4 + 13 // from the end of the version up to the name of a plugin
	if p := &v.packet; p.first != 0xff && (p.zero == 0 || p.size < p.zero+rest) {
		v.refuse("a greeting that ends too soon")
	}
}

func (v *vetted) refuse(format string, args ...any) {
	v.err = fmt.Errorf("the server's answer is none to what we ask: "+format, args...)
}
