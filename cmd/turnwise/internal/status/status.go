// Package status reports what becomes of a wish for a line: to people on a terminal or in a log, and to programs.
package status

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Version is the version of the lines for programs. It changes when a field goes or changes its meaning, not when one is
// added.
const Version = 1

// Event is a line for programs.
type Event struct {
	Version  int        `json:"v"`
	Time     time.Time  `json:"time"`
	Event    string     `json:"event"` // waiting, granted, asked, endangered, lost, released
	Name     string     `json:"name"`
	Mode     string     `json:"mode"`
	Line     string     `json:"line,omitempty"`     // of waiting and asked: in which of several lines
	Position int        `json:"position,omitempty"` // of waiting: 1 is the next to have its turn
	Holder   *Holder    `json:"holder,omitempty"`   // of waiting
	Token    string     `json:"token,omitempty"`    // from granted on; as text, since it may be too large for a number in JSON
	Deadline *time.Time `json:"deadline,omitempty"` // of granted and endangered: when the hold ends if nothing more is heard
	Reason   string     `json:"reason,omitempty"`   // of lost
	By       *Holder    `json:"by,omitempty"`       // of asked: who asks
	Asks     string     `json:"asks,omitempty"`     // of asked: what for
}

// Holder describes who has the line.
type Holder struct {
	ID    string    `json:"id"`
	Host  string    `json:"host,omitempty"`
	PID   int       `json:"pid,omitempty"`
	Label string    `json:"label,omitempty"`
	Since time.Time `json:"since,omitzero"` // when it came, not when it got its turn
	Token string    `json:"token"`

	Turn *time.Time `json:"turn,omitempty"` // since when it has its turn, if it says so or somebody has seen it
}

// Of returns what a node says about its owner.
func Of(n coord.Node) *Holder {
	h := &Holder{ID: n.ID, Host: n.Owner.Host, PID: n.Owner.PID, Label: n.Owner.Label, Since: n.Owner.Since, Token: fmt.Sprint(n.Token)}
	if n.Holds && !n.Turn.IsZero() {
		h.Turn = &n.Turn
	}
	return h
}

// Reporter writes events to people and to programs. Either may be nil.
type Reporter struct {
	name, mode string

	programs chan []byte
	written  chan struct{}

	mu       sync.Mutex
	people   io.Writer
	terminal bool
	line     string // on a terminal: what stands there now; else: what was written last
}

// New returns a reporter for one wish. Programs that do not read hold nobody up: they miss what there is no room for. people must not
// block.
func New(name, mode string, people io.Writer, terminal bool, programs io.WriteCloser) *Reporter {
	r := &Reporter{name: name, mode: mode, people: people, terminal: terminal, written: make(chan struct{})}
	if programs == nil {
		close(r.written)
		return r
	}
	r.programs = make(chan []byte, 1000)
	go func() {
		defer close(r.written)
		defer programs.Close()
		for text := range r.programs {
			if _, err := programs.Write(text); err != nil {
				break
			}
		}
		for range r.programs {
		}
	}()
	return r
}

// Quiet reports whether nobody wants to know about the wait.
func (r *Reporter) Quiet() bool { return r.people == nil && r.programs == nil }

// Tell writes an event for programs. Its name is the wish's, if it has none.
func (r *Reporter) Tell(e Event) {
	if r.programs == nil {
		return
	}
	e.Version, e.Time, e.Name, e.Mode = Version, time.Now(), cmp.Or(e.Name, r.name), r.mode
	select {
	case r.programs <- JSON(e):
	default:
	}
}

// Waiting reports where we stand in the line, and who holds it; me is our own node.
//
// It returns false if we do not wait there any more.
func (r *Reporter) Waiting(line []coord.Node, me coord.Node) bool {
	ahead := 0
	var holder *coord.Node
	found := false
	for i, n := range line {
		if n.Token == me.Token {
			found = !n.Holds
			break
		}
		if n.Holds {
			if holder == nil {
				holder = &line[i]
			}
			continue
		}
		ahead++
	}
	if !found {
		return false
	}
	e := Event{Event: "waiting", Position: ahead + 1}
	text := fmt.Sprintf("waiting: %s in line", ordinal(ahead+1))
	if me.Line != r.name {
		e.Line = me.Line
		text += " for " + strconv.Quote(me.Line)
	}
	if holder != nil {
		e.Holder = Of(*holder)
		text += "; held by " + describe(*holder)
	}
	changed := r.say(text+since(holder), text)
	if changed {
		r.Tell(e)
	}
	return true
}

// say shows a line that replaces the previous one: in place on a terminal, elsewhere only if its essence has changed.
func (r *Reporter) say(text, essence string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = essence != r.line
	r.line = essence
	switch {
	case r.people == nil:
	case r.terminal:
		fmt.Fprintf(r.people, "\r%s\x1b[K", text)
	case changed:
		fmt.Fprintln(r.people, "turnwise: "+text)
	}
	return changed
}

// Over ends the waiting and wipes the terminal's line.
func (r *Reporter) Over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.people != nil && r.terminal && r.line != "" {
		fmt.Fprint(r.people, "\r\x1b[K")
	}
	r.line = ""
}

// Close gives programs a moment to read the last lines.
func (r *Reporter) Close() {
	if r.programs == nil {
		return
	}
	close(r.programs)
	select {
	case <-r.written:
	case <-time.After(100 * time.Millisecond):
	}
}

func ordinal(n int) string {
	end := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			end = "st"
		case 2:
			end = "nd"
		case 3:
			end = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, end)
}

// describe says whose node it is, in a few words that are safe to show.
func describe(n coord.Node) string {
	if n.Owner == (coord.Owner{}) {
		return "somebody who does not say who it is"
	}
	text := fmt.Sprintf("%s/%d", coord.Printable(n.Owner.Host), n.Owner.PID)
	if n.Owner.Label != "" {
		text += fmt.Sprintf(" \"%s\"", strings.ReplaceAll(coord.Printable(n.Owner.Label), `"`, `\"`))
	}
	return text
}

// since says since when the holder has it, if it says so, and otherwise how long it has been in line.
func since(holder *coord.Node) string {
	if holder == nil {
		return ""
	}
	return Since(*holder)
}

// Since says since when a holder has the line, if it says so, and otherwise when it came; "" if it says neither.
func Since(holder coord.Node) string {
	switch {
	case !holder.Turn.IsZero():
		return ", for " + Age(holder.Turn)
	case !holder.Owner.Since.IsZero():
		return ", who came " + Age(holder.Owner.Since) + " ago"
	}
	return ""
}

// Age says how long ago something was, in seconds. That may be by another machine's clock, so it may be a little in the
// future.
func Age(t time.Time) string {
	return max(time.Since(t), 0).Truncate(time.Second).String()
}

// Describe says whose node it is, in a few words that are safe to show.
func Describe(n coord.Node) string { return describe(n) }

// Mode says in words what a contender wants.
func Mode(kind string) string {
	switch {
	case kind == rules.Reader:
		return "shared"
	case kind == rules.Lead:
		return "leader"
	case rules.IsPermits(kind):
		return strings.Replace(kind[1:], "of", " of ", 1) + " permits"
	}
	return "exclusive"
}
