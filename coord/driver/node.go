package driver

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Token is a node's place in its line and the fencing token of whoever holds through it. Along one line tokens strictly
// increase forever: from session to session, when a line has emptied and is used again, and past the end of the
// service's own counter.
type Token int64

// Node is one contender in a line, as the service shows it.
type Node struct {
	Line  string // the line's name
	ID    string // unique at the service, and never used again
	Kind  string // what it asks for; see ValidKind
	Token Token  // its place in the line
	Owner Owner  // who put it there; empty for foreign contenders, and if the service does not let us know
	Data  []byte // what the owner says about itself, such as an election's value; nil if it says nothing, or as with Owner
	Holds bool   // whether it is its turn, if the kind is known; set by package coord

	Inside int // how many share it and hold or wait, if this client's callers do (coord.Together); set by package coord

	// What its owner says beside the Data; set by package coord.
	Turn time.Time // since when it has had its turn (coord.WithTurnNotes)
	Rank int       // see coord.Rank
	Asks string    // what it asks those ahead for; see coord.Asking

	Trace string // the trace of the call that it stands for; see coord.WithTraces
}

// Owner is who put a node into its line, according to the node: anyone who may write there may say anything. Show it,
// like the Data, with coord.Printable.
type Owner struct {
	Host  string
	PID   int
	Label string    // as given with coord.WithOwnerLabel
	Since time.Time // when it joined, by its own clock
}

// How long a Host and a Label can be, in bytes. Whatever reads nodes cuts off the rest: who waits shows whose turn it is with
// each change, and somebody else's name of megabytes would fill his log.
const (
	MaxHost  = 255     // no host has a longer name
	MaxLabel = 1 << 10 // as much as coord.WithOwnerLabel takes
)

// Bounded returns the Owner with a Host and a Label that are no longer than MaxHost and MaxLabel, and with a Since that has a year of four
// digits, or none: encoding/json takes no other time, and whoever shows many lines would show none because of a single node.
func (o Owner) Bounded() Owner {
	o.Host, o.Label = cut(o.Host, MaxHost), cut(o.Label, MaxLabel)
	if year := o.Since.UTC().Year(); year < 0 || year > 9999 {
		o.Since = time.Time{}
	}
	return o
}

// cut returns the beginning of a text that is too long, up to the end of a character, and keeps no more than that in memory.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax+1 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}

// Entry is a request to stand in a line.
type Entry struct {
	Line  string // a valid name (see coord.CheckName); encode what your service cannot take
	Kind  string
	Owner Owner
	Data  []byte // at most coord.MaxData
	Sight Sight

	// Free makes it a try: join only if Free returns true for the nodes within Sight, as Join would return them. It is a
	// pure function, and its result never turns from true to false when one of them leaves. Nil: join whoever is there.
	Free func(ahead []Node) bool

	// Waits, unless it is nil, is to be called when Join has to wait until others have left before it can stand in the line at
	// all. What it calls should return soon.
	Waits func()
}

// InVain reports whether e is a try and, with these ahead, would have to wait.
func (e Entry) InVain(ahead []Node) bool { return e.Free != nil && !e.Free(ahead) }

// Sight says which of the nodes ahead a rule needs to see, so that a service that can search is asked for no more. A
// driver may always return more of the nodes ahead.
type Sight struct {
	Ignore  []string // these kinds never stand in my way; all others may, foreign ones included
	Nearest int      // how many of the others it must see, the nearest ones; 0 means one, All means all
}

// All is the Nearest of a rule that does not know how far it must look.
const All = math.MaxInt

// Depth returns Nearest, but at least one.
func (s Sight) Depth() int { return max(s.Nearest, 1) }

// Sees reports whether a node of this kind may stand in the way.
func (s Sight) Sees(kind string) bool { return !slices.Contains(s.Ignore, kind) }

// MaxKind is the length of the longest kind.
const MaxKind = 48

// ValidKind reports whether kind consists of 1 to MaxKind letters and digits, so that it can be part of a znode's
// name or an etcd key. The recipes use "lock", "lead", "R", "W" and, for semaphores, S, Q or G followed by
// "<weight>of<permits>": see package rules. A foreign contender has the kind that its own tool gives it, or "lock".
func ValidKind(kind string) bool {
	if len(kind) == 0 || len(kind) > MaxKind {
		return false
	}
	for i := 0; i < len(kind); i++ {
		c := kind[i] | 0x20
		if (c < 'a' || c > 'z') && (kind[i] < '0' || kind[i] > '9') {
			return false
		}
	}
	return true
}

// A card is what a node carries at the service: a line of text that shows an operator, in the service's own tool, who
// stands there, followed by the owner's data as it is.
//
//	turnwise 1 "host" 4711 "label" 2026-01-02T15:04:05.123Z
//
// It is encoded by hand rather than as JSON because every acquire writes one.
const cardHead = "turnwise 1 "

const cardTime = "2006-01-02T15:04:05.000Z"

// EncodeCard returns the card to store with a node.
func EncodeCard(o Owner, data []byte) []byte {
	b := make([]byte, 0, len(cardHead)+len(o.Host)+len(o.Label)+len(data)+48)
	b = append(b, cardHead...)
	b = strconv.AppendQuote(b, o.Host)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(o.PID), 10)
	b = append(b, ' ')
	b = strconv.AppendQuote(b, o.Label)
	b = append(b, ' ')
	b = o.Since.UTC().AppendFormat(b, cardTime)
	b = append(b, '\n')
	return append(b, data...)
}

// newerCard is the label that is shown of an owner whose card is written in a way that is not known yet.
const newerCard = "(written by a newer version of turnwise: upgrade this program)"

// DecodeCard takes a card apart. Its Owner is Bounded. Of a card of a newer version, the Owner says that it is one, and there is no data. Bytes
// that are no card come from a foreign contender: the Owner is empty, and they
// are all Data.
func DecodeCard(b []byte) (Owner, []byte) {
	if isNewerCard(b) {
		return Owner{Label: newerCard}, nil
	}
	rest, ok := bytes.CutPrefix(b, []byte(cardHead))
	if !ok {
		return Owner{}, nonEmpty(b)
	}
	text, data, ok := bytes.Cut(rest, []byte{'\n'})
	if !ok {
		return Owner{}, nonEmpty(b)
	}
	o, ok := parseOwner(string(text))
	if !ok {
		return Owner{}, nonEmpty(b)
	}
	return o.Bounded(), nonEmpty(data)
}

// isNewerCard reports whether something begins as a card does that has a greater number.
func isNewerCard(b []byte) bool {
	rest, ok := bytes.CutPrefix(b, []byte("turnwise "))
	number, rest, ended := bytes.Cut(rest, []byte(" "))
	if !ok || !ended || len(number) > 4 || !bytes.HasPrefix(rest, []byte{'"'}) {
		return false
	}
	n, err := strconv.ParseUint(string(number), 10, 16)
	return err == nil && n > 1 && number[0] != '0'
}

func parseOwner(s string) (o Owner, ok bool) {
	if o.Host, s, ok = cutQuoted(s); !ok {
		return Owner{}, false
	}
	pid, s, ok := strings.Cut(s, " ")
	if !ok {
		return Owner{}, false
	}
	var err error
	if o.PID, err = strconv.Atoi(pid); err != nil {
		return Owner{}, false
	}
	if o.Label, s, ok = cutQuoted(s); !ok {
		return Owner{}, false
	}
	if o.Since, err = time.Parse(cardTime, s); err != nil {
		return Owner{}, false
	}
	return o, true
}

// cutQuoted splits off a quoted string at the start of s and the space behind it.
func cutQuoted(s string) (value, rest string, ok bool) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", false
	}
	if value, err = strconv.Unquote(q); err != nil {
		return "", "", false
	}
	rest = s[len(q):]
	if len(rest) == 0 || rest[0] != ' ' {
		return "", "", false
	}
	return value, rest[1:], true
}

func nonEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
