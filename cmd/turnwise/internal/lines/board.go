package lines

import (
	"time"
	"unicode/utf8"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/asks"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Version is the version of the JSON. It changes when a field goes or changes its meaning, not when one is added.
const Version = 1

// How many contenders of a line are shown: among all lines, and when somebody has asked for that line.
const (
	Few  = 20
	Many = 1000
)

// State says whether what is shown is up to date.
type State string

const (
	Live   State = "live"   // it was read a moment ago
	Unread State = "unread" // it has not been read yet
	Stale  State = "stale"  // it was read, but could not be read again
)

// Board is everything that is known at one moment. It never changes.
type Board struct {
	Version int        `json:"v"`
	Time    time.Time  `json:"time"`
	Service string     `json:"service"`
	State   State      `json:"state"`
	AsOf    *time.Time `json:"as_of,omitempty"` // when the names of the lines were last read
	Error   string     `json:"error,omitempty"`
	Lines   []Line     `json:"lines"` // in the order of names
	More    int        `json:"more"`  // lines that are not read at all
	Owners  []Owner    `json:"owners"`
	Waits   []Wait     `json:"waits"`
	Circles []Circle   `json:"circles"`

	named time.Time // when the names of the lines were last asked for, with or without success
	tried time.Time // every line was asked for at this time or later
}

// Line is one line.
type Line struct {
	Name       string      `json:"name"`
	State      State       `json:"state"`
	AsOf       *time.Time  `json:"as_of,omitempty"`
	Error      string      `json:"error,omitempty"`
	Holding    int         `json:"holding"`
	Waiting    int         `json:"waiting"`
	Oldest     *time.Time  `json:"oldest_wait,omitempty"` // when the contender that has waited longest came
	OldestWork *time.Time  `json:"-"`                     // the same without candidates: they wait for weeks by design
	Contenders []Contender `json:"contenders"`            // in order
	More       int         `json:"more"`                  // contenders that are not listed
}

// Contender is a contender in a line.
type Contender struct {
	*status.Holder
	Kind     string `json:"kind"`
	Mode     string `json:"mode"`
	Holds    bool   `json:"holds"`
	Position int    `json:"position,omitempty"`              // of a waiter: 1 is the next
	Expected int    `json:"expected_wait_seconds,omitempty"` // of a waiter
	Value    string `json:"value,omitempty"`                 // of a candidate
	Rank     int    `json:"rank,omitempty"`                  // of a candidate
	Asks     string `json:"asks,omitempty"`                  // what it asks those ahead to let go for
}

// Owner is one process or, on this machine, a process with those that it has started.
type Owner struct {
	ID    string `json:"id"`
	Label string `json:"label,omitempty"`
}

// longest is how many bytes of others' texts are shown.
const longest = 256

func cut(text string) string {
	if len(text) <= longest {
		return text
	}
	end := longest
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// show makes a Line from what was read.
func (r *record) show(name string, most int, stuck func(coord.Node) bool, now time.Time) Line {
	l := Line{Name: name, State: r.state(now), Contenders: []Contender{}}
	if r.err != nil {
		l.Error = say(r.err)
	} else if l.State == Stale && r.asking {
		l.Error = "the service has not answered yet"
	}
	if r.asOf.IsZero() {
		return l
	}
	l.AsOf = stamp(r.asOf)
	turn, paced := r.pace.turn()
	for _, n := range r.nodes {
		if n.Holds {
			l.Holding++
		} else {
			l.Waiting++
			l.Oldest = older(l.Oldest, n.Owner.Since)
			if n.Kind != rules.Lead {
				l.OldestWork = older(l.OldestWork, n.Owner.Since)
			}
		}
		if len(l.Contenders) == most {
			l.More++
			continue
		}
		c := Contender{Holder: status.Of(n), Kind: n.Kind, Mode: status.Mode(n.Kind), Holds: n.Holds, Value: cut(asks.Value(n)), Rank: n.Rank, Asks: asks.Note(n)}
		c.Host, c.Label = cut(c.Host), cut(c.Label)
		if at, ok := r.turns[n.Token]; ok && c.Turn == nil {
			c.Turn = stamp(at)
		}
		if !n.Holds {
			c.Position = l.Waiting
			if paced && !stuck(n) {
				c.Expected = roundly(time.Duration(c.Position) * turn)
			}
		}
		l.Contenders = append(l.Contenders, c)
	}
	return l
}

// older returns the earlier of two times, of which either may not be known.
func older(a *time.Time, b time.Time) *time.Time {
	if b.IsZero() || a != nil && !b.Before(*a) {
		return a
	}
	return &b
}

func stamp(t time.Time) *time.Time {
	t = t.Round(0).UTC().Truncate(time.Millisecond)
	return &t
}

// same reports whether nothing differs except the time of reading.
func (l Line) same(o Line) bool {
	if l.Name != o.Name || l.State != o.State || l.Error != o.Error || l.Holding != o.Holding || l.Waiting != o.Waiting ||
		l.More != o.More || len(l.Contenders) != len(o.Contenders) || !sameTime(l.Oldest, o.Oldest) {
		return false
	}
	for i, c := range l.Contenders {
		d := o.Contenders[i]
		if c.ID != d.ID || c.Kind != d.Kind || c.Holds != d.Holds || c.Position != d.Position || c.Expected != d.Expected ||
			c.Value != d.Value || c.Rank != d.Rank || c.Asks != d.Asks || !sameTime(c.Turn, d.Turn) {
			return false
		}
	}
	return true
}

func sameTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// Changes returns the lines that are new or different compared with an earlier board, and the names of those that have
// gone.
func (b *Board) Changes(since *Board) (different []Line, gone []string) {
	old := since.Lines
	for _, l := range b.Lines {
		for len(old) > 0 && old[0].Name < l.Name {
			gone = append(gone, old[0].Name)
			old = old[1:]
		}
		if len(old) > 0 && old[0].Name == l.Name {
			if !l.same(old[0]) {
				different = append(different, l)
			}
			old = old[1:]
			continue
		}
		different = append(different, l)
	}
	for _, o := range old {
		gone = append(gone, o.Name)
	}
	return different, gone
}
