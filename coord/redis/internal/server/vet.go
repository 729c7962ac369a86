package server

import (
	"fmt"
	"net"
	"strings"
	"sync"
)

// A vetted connection lets through only what a Redis can have answered. The client library believes lengths before it has
// authenticated anybody, follows arrays to any depth, and panics in a goroutine of its own, where nobody can recover, at
// answers to nothing or of another shape than it expects. So a server that lies would end the process. Here it ends the
// connection instead.
type vetted struct {
	net.Conn
	writing scanner // what the library sends; a mutex of its own would serve nobody: there is one writer
	reading scanner

	mu       sync.Mutex
	awaited  []awaited // the answers that are yet to come
	resp3    bool      // asked for
	hears    bool      // something was subscribed to
	departed bool      // an UNSUBSCRIBE was sent: the library takes the answer of the PING behind it for its own
	err      error     // why nothing more is let through
}

// awaited is an answer that is yet to come.
type awaited struct {
	verb     string
	channels int // how many confirmations of a SUBSCRIBE
	begun    bool
}

func newVetted(conn net.Conn) *vetted {
	v := &vetted{Conn: conn}
	v.writing = scanner{done: v.sent, mostLine: maxLine, mostBytes: -1, mostElements: -1}
	v.reading = scanner{done: v.answered, mostLine: maxLine, mostBytes: maxReply, mostElements: maxElements}
	return v
}

// What one answer may have. The largest is a page of a listing: see listScript.
const (
	maxReply    = 2*MaxStored + 1<<20
	maxElements = 1 << 16
	maxDepth    = 8
	maxLine     = 64 << 10
)

func (v *vetted) Write(b []byte) (int, error) {
	if _, err := v.writing.scan(b); err != nil {
		return 0, err
	}
	return v.Conn.Write(b)
}

func (v *vetted) Read(b []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.Conn.Read(b)
	fine, wrong := v.reading.scan(b[:n])
	if wrong == nil {
		return n, err
	}
	v.err = fmt.Errorf("%w: %w", ErrStrange, wrong)
	if fine > 0 {
		return fine, nil
	}
	return 0, v.err
}

// sent notes what is to be answered.
func (v *vetted) sent(command *value) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := awaited{verb: strings.ToUpper(command.word(0))}
	switch a.verb {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		a.channels, v.hears = command.elements-1, true
	case "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		v.departed = true
		return nil
	case "PING":
		if v.departed {
			a.verb, v.departed = pong, false
		}
	case "HELLO":
		v.resp3 = v.resp3 || command.word(1) == "3"
	case "SENTINEL":
		a.verb += " " + strings.ToUpper(command.word(1))
	}
	v.awaited = append(v.awaited, a)
	return nil
}

const pong = "PING after UNSUBSCRIBE"

// answered reports what is wrong with an answer or a push, before its last byte is let through.
func (v *vetted) answered(r *value) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.typ == '>' || r.typ == '*' && !v.resp3 && v.hears && isPush[r.word(0)] {
		return v.pushed(r)
	}
	if len(v.awaited) == 0 || v.awaited[0].begun {
		return fmt.Errorf("it answers %.40q, and nothing was asked", r.word(0))
	}
	a := v.awaited[0]
	v.awaited = v.awaited[1:]
	fine := true
	switch isArray := r.typ == '*' || r.typ == '~'; {
	case a.channels > 0:
		fine = r.typ == '-' && r.word(0) != "QUEUED"
	case a.verb == pong:
		fine = isPong(r)
	case a.verb == "ROLE":
		fine = !isArray || r.elements >= 1
	case a.verb == "SENTINEL GET-MASTER-ADDR-BY-NAME":
		fine = !isArray || r.elements >= 2
	}
	if !fine {
		return fmt.Errorf("it answers %s with %d elements, beginning with %.40q", a.verb, r.elements, r.word(0))
	}
	return nil
}

var isPush = map[string]bool{"message": true, "pmessage": true, "smessage": true, "subscribe": true, "psubscribe": true,
	"ssubscribe": true, "unsubscribe": true, "punsubscribe": true, "sunsubscribe": true}

func isPong(r *value) bool {
	says := r.word(0)
	if r.typ == '-' { // the library passes over these
		return strings.HasPrefix(says, "LOADING") || strings.HasPrefix(says, "BUSY") || strings.Contains(says, "'ping'")
	}
	return says == "PONG" || says == "pong"
}

// leastWords says how many words of a sentinel's event the library looks at.
var leastWords = map[string]int{"+sentinel": 4, "+reboot": 4, "+switch-master": 5}

func (v *vetted) pushed(r *value) error {
	switch r.word(0) {
	case "subscribe", "psubscribe", "ssubscribe":
		if len(v.awaited) == 0 || v.awaited[0].channels == 0 {
			return fmt.Errorf("it confirms a subscription that nobody wanted")
		}
		a := &v.awaited[0]
		a.begun = true
		if a.channels--; a.channels == 0 {
			v.awaited = v.awaited[1:]
		}
	case "message":
		if least := leastWords[r.word(1)]; strings.Count(r.word(2), " ")+1 < least {
			return fmt.Errorf("it tells of %s in less than %d words", r.word(1), least)
		}
	}
	return nil
}
