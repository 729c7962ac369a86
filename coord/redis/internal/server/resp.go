package server

import (
	"bytes"
	"fmt"
	"strconv"
)

// A scanner follows the frames of RESP2 and RESP3 in a stream, and keeps nothing of what is in them but a few words. What no
// Redis sends unless it is asked to (attributes, and strings and arrays whose length is not said) is an error.
type scanner struct {
	done                              func(*value) error // called with each whole value
	mostLine, mostBytes, mostElements int                // of a line, and of a value; below 0: any number

	typ  byte    // of what is under way; 0: nothing; tail: the end of a string
	line []byte  // under way
	body int     // bytes of a string that are yet to come
	open []int   // elements that are yet to come, for each array that is open
	all  int     // elements of the value so far, at all depths
	size int     // bytes of the value so far
	word *[]byte // where the string under way is kept; nil: nowhere
	top  value
}

// value is an answer, or a command.
type value struct {
	typ      byte
	elements int       // of an array
	begun    int       // how many of them have begun
	words    [3][]byte // what the first of them say, or the value itself if it is none; cut off at 512 bytes
}

func (v *value) word(i int) string { return string(v.words[i]) }

const tail = '\r'

// scan returns how many bytes are fine. If not all are, err says why, and a value that is not fine is not whole in them.
func (s *scanner) scan(b []byte) (fine int, err error) {
	for i := 0; i < len(b); {
		switch {
		case s.body > 0:
			n := min(s.body, len(b)-i)
			s.keep(b[i : i+n])
			if s.body -= n; s.body == 0 {
				s.typ = tail
			}
			i += n
		case s.typ == 0:
			if err := s.begin(b[i]); err != nil {
				return i, err
			}
			i++
		default:
			n := bytes.IndexByte(b[i:], '\n')
			if n < 0 {
				n = len(b) - i
			}
			if len(s.line)+n > s.mostLine {
				return i, fmt.Errorf("a line of more than %d bytes", s.mostLine)
			}
			s.line = append(s.line, b[i:i+n]...)
			if i += n; i == len(b) {
				break
			}
			if err := s.lineEnded(); err != nil {
				return i, err
			}
			i++
		}
	}
	return len(b), nil
}

// begin begins a value, or an element of one.
func (s *scanner) begin(typ byte) error {
	switch typ {
	case '+', '-', ':', '_', ',', '#', '(', '$', '=', '!', '*', '~', '%':
	case '>':
		if len(s.open) > 0 {
			return fmt.Errorf("a push within an answer")
		}
	default:
		return fmt.Errorf("unknown message type %q", typ)
	}
	s.typ, s.word = typ, nil
	switch len(s.open) {
	case 0:
		s.all, s.size, s.top.typ, s.top.elements, s.top.begun = 0, 0, typ, 0, 0
		for i := range s.top.words {
			s.top.words[i] = s.top.words[i][:0]
		}
		s.word = &s.top.words[0]
	case 1:
		if s.top.begun < len(s.top.words) {
			s.word = &s.top.words[s.top.begun]
		}
		s.top.begun++
	}
	return nil
}

// keep keeps a part of a string if it is one of the words.
func (s *scanner) keep(part []byte) {
	if s.word != nil {
		*s.word = append(*s.word, part[:min(len(part), 512-len(*s.word))]...)
	}
}

// lineEnded is called with a line in s.line, which does not have its last byte yet.
func (s *scanner) lineEnded() error {
	text, ok := bytes.CutSuffix(s.line, []byte("\r"))
	if !ok {
		return fmt.Errorf("a line does not end as it has to")
	}
	typ := s.typ
	s.line, s.typ = s.line[:0], 0
	switch typ {
	case tail, '_':
		ok = len(text) == 0
	case '#':
		ok = string(text) == "t" || string(text) == "f"
	case ':':
		_, err := strconv.ParseInt(string(text), 10, 64)
		ok = err == nil && text[0] != '+'
	case '+', '-', ',', '(':
		if s.size += len(text); s.mostBytes >= 0 && s.size > s.mostBytes {
			return fmt.Errorf("a value of more than %d bytes", s.mostBytes)
		}
		s.keep(text)
	case '$', '=', '!':
		return s.stringBegun(typ, text)
	default:
		return s.arrayBegun(typ, text)
	}
	if !ok {
		return fmt.Errorf("%.40q is not what follows %q", text, typ)
	}
	return s.ended()
}

func (s *scanner) stringBegun(typ byte, text []byte) error {
	if typ == '$' && string(text) == "-1" {
		return s.ended()
	}
	n, err := length(text)
	if err == nil && s.mostBytes >= 0 && (n > s.mostBytes || s.size+n > s.mostBytes) {
		err = fmt.Errorf("it announces %d bytes, and %d are the most", n, s.mostBytes)
	}
	if err != nil {
		return err
	}
	s.size += n
	if s.typ, s.body = typ, n; n == 0 {
		s.typ = tail
	}
	return nil
}

func (s *scanner) arrayBegun(typ byte, text []byte) error {
	if typ == '*' && string(text) == "-1" {
		return s.ended()
	}
	n, err := length(text)
	if err == nil && s.mostElements >= 0 && (n > s.mostElements || s.all+2*n > s.mostElements) {
		err = fmt.Errorf("it announces %d elements, and %d are the most", n, s.mostElements)
	}
	if err == nil && len(s.open) == maxDepth {
		err = fmt.Errorf("more than %d arrays within each other", maxDepth)
	}
	if err != nil {
		return err
	}
	if typ == '%' {
		n *= 2
	}
	s.all += n
	if len(s.open) == 0 {
		s.top.elements = n
	}
	if n == 0 {
		return s.ended()
	}
	s.open = append(s.open, n)
	return nil
}

// length reads a length: digits, and nothing else.
func length(text []byte) (int, error) {
	n, err := strconv.ParseUint(string(text), 10, 62)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no length", text)
	}
	return int(n), nil
}

// ended is called when a value, or an element of one, is whole but for its last byte.
func (s *scanner) ended() error {
	for len(s.open) > 0 {
		last := len(s.open) - 1
		if s.open[last]--; s.open[last] > 0 {
			return nil
		}
		s.open = s.open[:last]
	}
	return s.done(&s.top)
}
