package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// DefaultSkew is by how much the clocks of machines may differ if nothing more is known about them.
const DefaultSkew = time.Second

// Audit judges traces: give it all traces of the lines in question, then ask for the verdict.
type Audit struct {
	skew time.Duration

	files   []string
	authors map[string]*author
	texts   map[string]string // each text is kept once

	broken int      // how many lines cannot be read
	first  position // of them
	why    error
}

// NewAudit returns an Audit that has read nothing. The clocks of two machines are assumed to differ by skew at most,
// and those of processes on one Linux machine not at all. If skew is too large, the Audit finds less; if it is too
// small, it finds faults where there were none.
func NewAudit(skew time.Duration) *Audit {
	return &Audit{skew: max(skew, 0), authors: map[string]*author{}, texts: map[string]string{}}
}

// position is where something is written.
type position struct {
	File string
	Line int // counted from 1
}

func (p position) String() string { return fmt.Sprintf("%s:%d", coord.Printable(p.File), p.Line) }

// author is one Observer.
type author struct {
	who     string // host and process
	numbers []int64
	events  []event
}

// event is what is kept of a record that says who had a line.
type event struct {
	number  int64
	what    string
	line    name
	token   coord.Token
	kind    string
	at      moment
	waited  time.Duration
	why     string
	file    int
	numeral int // of the line in the file
}

// name is the name of a line and of its service.
type name struct{ service, line string }

// moment is a time by two clocks: the machine's, and the one that is never set.
type moment struct {
	wall  int64
	clock string
	ticks int64
}

func (m moment) minus(d time.Duration) moment {
	m.wall -= int64(d)
	m.ticks -= int64(d)
	return m
}

func (m moment) String() string {
	return time.Unix(0, m.wall).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// after reports whether it is certain that m came after o, and by how much at least.
func (a *Audit) after(m, o moment) (time.Duration, bool) {
	by := time.Duration(m.wall-o.wall) - a.skew
	if m.clock == o.clock {
		by = time.Duration(m.ticks-o.ticks) - blur
	}
	return by, by > 0
}

// longest is how long a line of a trace can be.
const longest = 1 << 20

// Read reads a trace. name is what the verdict calls the file. What is not a line of a trace is skipped and counted. An
// error is r's, or says that there was no line of a trace at all.
func (a *Audit) Read(name string, r io.Reader) error {
	file := len(a.files)
	a.files = append(a.files, name)
	in := bufio.NewReaderSize(r, longest)
	found, broken, first, why := 0, 0, 0, error(nil)
	for numeral := 1; ; numeral++ {
		line, err := in.ReadSlice('\n')
		tooLong := false
		for errors.Is(err, bufio.ErrBufferFull) {
			tooLong = true
			_, err = in.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s: %w", coord.Printable(name), err)
		}
		if text := strings.TrimSpace(string(line)); text != "" || tooLong {
			rec, wrong := parse([]byte(text))
			if tooLong {
				wrong = errForeign
			}
			if wrong == nil {
				found++
				a.take(rec, file, numeral)
			} else {
				if broken++; broken == 1 {
					first, why = numeral, wrong
				}
				if a.broken++; a.why == nil {
					a.first, a.why = position{name, numeral}, wrong
				}
			}
		}
		if err == io.EOF {
			break
		}
	}
	if found == 0 && broken > 0 {
		return fmt.Errorf("%s is no trace: line %d: %w", coord.Printable(name), first, why)
	}
	return nil
}

func (a *Audit) take(r record, file, numeral int) {
	by := a.authors[r.By]
	if by == nil {
		by = &author{who: fmt.Sprintf("%s/%d", coord.Printable(r.Host), r.PID)}
		a.authors[r.By] = by
	}
	by.numbers = append(by.numbers, r.N)
	at := moment{wall: r.Time.UnixNano(), clock: a.once(cmp.Or(r.Clock, r.By)), ticks: r.Ticks}
	if r.tellsOfTurn() {
		by.events = append(by.events, event{
			number: r.N, what: a.once(r.Event), line: name{a.once(r.Service), a.once(r.Line)}, token: r.Token, kind: a.once(r.Kind),
			at: at, waited: r.Waited, why: a.once(r.Error), file: file, numeral: numeral})
	}
}

// once returns the text, of which all share one copy.
func (a *Audit) once(text string) string {
	if kept, ok := a.texts[text]; ok {
		return kept
	}
	a.texts[text] = text
	return text
}

// turn is what a trace tells of one turn. Any part of it may be missing.
type turn struct {
	who      string
	token    coord.Token
	kind     string // as which it was granted
	last     string // as which it was held at the end
	asked    moment
	granted  moment
	softened moment // when it became a reader's
	ended    moment // until when it was held for sure
	why      string // it was lost; empty: released

	begins, ends      position // where it says so
	hasBegin, hasEnd  bool
	hasSoftened, lost bool
}

// turns puts together what one Observer wrote about one token in one line.
func (a *Audit) turns() map[name][]*turn {
	type key struct {
		line  name
		token coord.Token
	}
	lines := map[name][]*turn{}
	for _, by := range a.authors {
		slices.SortStableFunc(by.events, func(x, y event) int { return cmp.Compare(x.number, y.number) })
		// A file may have been given twice.
		by.events = slices.CompactFunc(by.events, func(x, y event) bool { return x.number == y.number })
		open := map[key]*turn{}
		for _, e := range by.events {
			k := key{e.line, e.token}
			t := open[k]
			if t == nil || e.what == granted {
				t = &turn{who: by.who, token: e.token, kind: e.kind}
				open[k] = t
				lines[e.line] = append(lines[e.line], t)
			}
			t.last = e.kind
			here := position{a.files[e.file], e.numeral}
			switch {
			case e.what == granted:
				t.hasBegin, t.begins, t.granted, t.asked = true, here, e.at, e.at.minus(e.waited)
			case e.what == amended:
				t.hasSoftened, t.softened = true, e.at
			case !t.hasEnd:
				t.hasEnd, t.ends, t.ended, t.why, t.lost = true, here, e.at, e.why, e.what == lost
			}
		}
	}
	return lines
}

// where is the part of a trace that tells of the turn.
func (t *turn) where() position {
	if t.hasBegin {
		return t.begins
	}
	return t.ends
}
