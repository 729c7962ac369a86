package server

import (
	"bytes"
	"strings"
	"testing"
)

// lies begin in all the ways that once ended a process.
var lies = []string{
	"$1099511627776\r\n", "$536870912\r\n", "$-2\r\n", "$-1\r\n", "*2147483647\r\n", "*-2\r\n", "*-1\r\n", "%-5\r\n",
	"%4611686018427387904\r\n", strings.Repeat("*60000\r\n", 3), strings.Repeat("*1\r\n", 20), "|1\r\n+a\r\n+b\r\n:1\r\n", "$?\r\n;1\r\nx\r\n;0\r\n",
	"*?\r\n:1\r\n.\r\n", "+x\n", ":--\r\n", "_x\r\n", "#x\r\n", "*1\r\n>2\r\n+a\r\n+b\r\n", "HTTP/1.1\r\n",
	"*2\r\n$3\r\nabc\r\n:5\r\n", "%1\r\n+proto\r\n:3\r\n", ">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$0\r\n\r\n", "=7\r\ntxt:abc\r\n", ",1.5\r\n(1\r\n#t\r\n_\r\n",
}

// However the bytes arrive, the same ones are let through, and no whole value among them is beyond the bounds.
func FuzzScanner(f *testing.F) {
	for _, l := range lies {
		f.Add([]byte(l), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		read := func(step int) (values int, fine int, err error) {
			s := scanner{mostLine: 1 << 10, mostBytes: 1 << 12, mostElements: 64}
			s.done = func(v *value) error {
				values++
				if s.size > 1<<12 || s.all > 64 || v.elements > 64 {
					t.Fatalf("%q: %d bytes, %d elements", b, s.size, s.all)
				}
				for _, w := range v.words {
					if len(w) > 512 {
						t.Fatalf("a word has %d bytes", len(w))
					}
				}
				return nil
			}
			for fine < len(b) {
				to := min(fine+step, len(b))
				n, err := s.scan(b[fine:to])
				if fine += n; err != nil {
					return values, fine, err
				}
			}
			return values, fine, nil
		}
		values, fine, err := read(len(b) + 1)
		again, fineAgain, errAgain := read(max(1, step&15))
		if values != again || (err == nil) != (errAgain == nil) {
			t.Errorf("%q: %d values, %v; in pieces %d, %v", b, values, err, again, errAgain)
		}
		if err != nil && fine > len(b) || fineAgain > fine && err == nil {
			t.Errorf("%q: %d and %d bytes are fine of %d", b, fine, fineAgain, len(b))
		}
		if err != nil {
			if n, _, err := (func() (int, int, error) { b = b[:fine]; return read(len(b) + 1) })(); n != values || err != nil {
				t.Errorf("%q is fine and has %d values, but alone %d: %v", b, values, n, err)
			}
		}
	})
}

func TestScannerLetsThroughWhatRedisSays(t *testing.T) {
	for _, says := range []string{
		"+OK\r\n", "-ERR no\r\n", ":-12\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "_\r\n", "#f\r\n", ",inf\r\n",
		"*2\r\n$1\r\n\n\r\n*1\r\n:1\r\n", "%1\r\n+modules\r\n*1\r\n%1\r\n+args\r\n*0\r\n", ">2\r\n+pong\r\n+\r\n", "~1\r\n:1\r\n",
		"$16777217\r\n" + strings.Repeat("x", MaxStored+1) + "\r\n",
	} {
		values := 0
		s := scanner{mostLine: maxLine, mostBytes: maxReply, mostElements: maxElements, done: func(*value) error { values++; return nil }}
		if n, err := s.scan([]byte(says)); err != nil || n != len(says) || values != 1 {
			t.Errorf("%.40q: %d of %d bytes are fine, %d values: %v", says, n, len(says), values, err)
		}
	}
	for _, lie := range lies[:13] {
		s := scanner{mostLine: maxLine, mostBytes: maxReply, mostElements: maxElements, done: func(*value) error { return nil }}
		if n, err := s.scan([]byte(lie)); lie[1:] != "-1\r\n" && (err == nil || bytes.HasSuffix([]byte(lie)[:n], []byte("\n")) && n == len(lie)) {
			t.Errorf("%.40q: %d bytes are fine, %v", lie, n, err)
		}
	}
}

// Many lines in one array are no way around the bound on a string.
func TestAnAnswerOfManyLinesIsBounded(t *testing.T) {
	s := scanner{mostLine: maxLine, mostBytes: maxReply, mostElements: maxElements, done: func(*value) error { return nil }}
	line := []byte("+" + strings.Repeat("x", 60_000) + "\r\n")
	_, err := s.scan([]byte("*30000\r\n"))
	fine := 0
	for n := 0; err == nil && fine <= 2*maxReply; fine += n {
		n, err = s.scan(line)
	}
	if err == nil || fine > maxReply+len(line) {
		t.Errorf("%d bytes are fine: %v", fine, err)
	}
}

// An answer may begin with the words of a push, such as a list whose first element is what somebody has stored.
func TestAnAnswerThatLooksLikeAPushIsAnAnswer(t *testing.T) {
	for name, v := range map[string]*vetted{
		"RESP3":                {resp3: true, hears: true},
		"who hears nothing":    {},
		"RESP3, hears nothing": {resp3: true},
	} {
		v.awaited = []awaited{{verb: "EVALSHA"}}
		says := &value{typ: '*', elements: 1, words: [3][]byte{[]byte("message")}}
		if err := v.answered(says); err != nil || len(v.awaited) != 0 {
			t.Errorf("%s: %d more are awaited, %v", name, len(v.awaited), err)
		}
		if err := v.answered(says); err == nil {
			t.Errorf("%s: two answers to one question", name)
		}
	}
	v := &vetted{hears: true, awaited: []awaited{{verb: "PING"}}} // RESP2, where a push is an array
	if err := v.answered(&value{typ: '*', elements: 3, words: [3][]byte{[]byte("message"), []byte("x"), []byte("y")}}); err != nil || len(v.awaited) != 1 {
		t.Errorf("%d are awaited after a push, %v", len(v.awaited), err)
	}
}
