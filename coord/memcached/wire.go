package memcached

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// reply is what a command was answered with.
type reply struct {
	code  string // VA, EN, HD, NS, EX, NF, or SERVER_ERROR and why
	cas   uint64
	size  int    // if that was asked for
	sum   uint32 // if that was asked for: what was stored with the value
	value []byte
}

func (r reply) found() bool { return r.code == "VA" }

// What we believe of a server's answers. No value of ours is larger than maxValue: whoever reads a line refuses a longer one.
const (
	maxValue   = 32 << 20
	maxAnswers = 128 << 20 // all that is asked for in one trip
	maxStats   = 1 << 20
)

// ask sends commands in one trip and returns their answers. The server carries them out in this order, but others'
// commands may come in between.
func (c *conn) ask(ctx context.Context, requests ...request) (answers []reply, err error) {
	answers = make([]reply, len(requests))
	err = c.during(ctx, func() error {
		for _, q := range requests {
			q.write(c.w)
		}
		if err := c.w.Flush(); err != nil {
			return err
		}
		for i, room := 0, maxAnswers; i < len(answers); i++ {
			if answers[i], err = c.read(room); err != nil {
				return err
			}
			room -= len(answers[i].value)
		}
		return nil
	})
	return answers, err
}

// line reads a line, which is no longer than the buffer. A server may send one without end.
func (c *conn) line() (string, error) {
	line, err := c.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", storekit.Denied("this is no memcached: it sends a line of more than %d bytes", len(line)-1)
	}
	return string(bytes.TrimRight(line, "\r\n")), err
}

// read reads one answer, whose value has room bytes at most. After an answer that makes no sense nobody knows where the next
// one begins, so the connection is given up.
func (c *conn) read(room int) (reply, error) {
	text, err := c.line()
	if err != nil {
		return reply{}, err
	}
	code, rest, _ := strings.Cut(text, " ")
	a := reply{code: code}
	switch code {
	case "VA":
		var size string
		size, rest, _ = strings.Cut(rest, " ")
		n, err := strconv.ParseUint(size, 10, 31)
		if err != nil {
			return a, fmt.Errorf("the server answers %.100q", text)
		}
		if n > maxValue+4<<10 || int(n) > room {
			return a, fmt.Errorf("the server says that an item has %d bytes, and no item of ours has so many", n)
		}
		a.value = make([]byte, n+2)
		if _, err := io.ReadFull(c.r, a.value); err != nil {
			return a, err
		}
		if !bytes.HasSuffix(a.value, []byte("\r\n")) {
			return a, errors.New("the server's answer is not as long as it says")
		}
		a.value = a.value[:n]
	case "HD", "EN", "NS", "EX", "NF":
	case "STORED", "NOT_STORED", "EXISTS", "NOT_FOUND":
		a.code = map[string]string{"STORED": "HD", "NOT_STORED": "NS", "EXISTS": "EX", "NOT_FOUND": "NF"}[code]
	case "SERVER_ERROR":
		a.code = text
		return a, nil
	default:
		if strings.Contains(text, "unauthenticated") {
			return a, errPassword
		}
		return a, fmt.Errorf("the server answers %.100q", text)
	}
	for _, f := range strings.Fields(rest) {
		n, _ := strconv.ParseUint(f[1:], 10, 64)
		switch f[0] {
		case 'c':
			a.cas = n
		case 's':
			a.size = int(min(n, math.MaxInt32))
		case 'f':
			a.sum = uint32(n)
		}
	}
	return a, nil
}

// request is a command. What stores something is none of the meta commands, though those are newer and say more: when the server has no
// memory for what ms brings, it throws away what stood there, and says so to nobody but the one who sent it, who may be gone. What add,
// cas and append bring is refused, and what stood there stays.
type request struct {
	verb, key string
	flags     string
	cas       uint64 // 0: whatever stands there
	value     []byte
	lasts     time.Duration // until it goes by itself; 0: for ever
}

// stores reports whether the command brings a value.
func (q request) stores() bool { return q.verb != "mg" && q.verb != "md" }

// sum goes to the server with a value, and tells later what stands there without reading it.
func (q request) sum() uint32 { return crc32.ChecksumIEEE(q.value) }

// get asks for the value and for the number that the server has given it.
func get(key string) request { return request{verb: "mg", key: key, flags: " v c"} }

// size asks for the length of the value alone.
func size(key string) request { return request{verb: "mg", key: key, flags: " s"} }

// number asks for the number and the sum of what stands there.
func number(key string) request { return request{verb: "mg", key: key, flags: " c f"} }

// add stores what is not there yet; replace stores it if what stands there is still what was seen.
func add(key string, value []byte) request {
	return request{verb: "add", key: key, value: value}
}

func replace(key string, cas uint64, value []byte) request {
	return request{verb: "cas", key: key, cas: cas, value: value}
}

// extend puts something at the end of what stands there, if anything does.
func extend(key string, value []byte) request {
	return request{verb: "append", key: key, value: value}
}

// remove takes away what was seen, and nothing else.
func remove(key string, cas uint64) request { return request{verb: "md", key: key, cas: cas} }

func (q request) write(w *bufio.Writer) {
	w.WriteString(q.verb)
	w.WriteByte(' ')
	w.WriteString(q.key)
	w.WriteString(q.flags)
	switch {
	case q.stores():
		fmt.Fprintf(w, " %d %d %d", q.sum(), int(q.lasts.Seconds()), len(q.value))
		if q.verb == "cas" {
			fmt.Fprintf(w, " %d", q.cas)
		}
	case q.cas != 0:
		fmt.Fprintf(w, " C%d", q.cas)
	}
	w.WriteString("\r\n")
	if q.stores() {
		w.Write(q.value)
		w.WriteString("\r\n")
	}
}

// stats asks for what the server says of itself.
func (c *conn) stats(ctx context.Context, which string) (all map[string]string, err error) {
	all = make(map[string]string)
	err = c.during(ctx, func() error {
		c.w.WriteString(strings.TrimSpace("stats "+which) + "\r\n")
		if err := c.w.Flush(); err != nil {
			return err
		}
		for size := 0; ; {
			line, err := c.line()
			if err != nil {
				return err
			}
			if size += len(line) + 1; size > maxStats {
				return storekit.Denied("this is no memcached: it says more than %d bytes of itself", maxStats)
			}
			fields := strings.SplitN(line, " ", 3)
			switch {
			case fields[0] == "END":
				return nil
			case fields[0] == "STAT" && len(fields) == 3:
				all[fields[1]] = fields[2]
			case strings.Contains(line, "unauthenticated"):
				return errPassword
			case strings.Contains(line, "Too many open connections"):
				return errors.New("the server has no connection to spare: raise its -c")
			case fields[0] == "SERVER_ERROR":
				return errors.New(strings.TrimSpace(line))
			case fields[0] != "STAT":
				return storekit.Denied("this is no memcached: it answers %.60q", strings.TrimSpace(line))
			}
		}
	})
	return all, err
}

func integer(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}
