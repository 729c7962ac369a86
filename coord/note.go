package coord

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"
)

// WithTurnNotes has this client's holds say since when they are held: services know when a node joined its line, but not when
// its turn came. A hold that lasts for a second then writes that into its node, once, which costs one request and has those
// right behind look again. Client.Line and the tool show it, as Node.Turn. It is the time of the holder's own clock. Programs
// that are not turnwise see it as a first line of the node's data. Beside it the data has room for some 40 bytes less than
// MaxData; where it needs that room there is no note.
func WithTurnNotes() Option { return func(c *Client) { c.notes = true } }

// WithTraces has this client's nodes say which trace they belong to: of is called with the context of each call that joins a line, and
// what it returns is shown to everybody as Node.Trace, such as the traceparent of a span. So whoever waits can tell for whom: see
// Observer.Behind. It is one printable line of at most 100 bytes, or nothing is said; nor is it where the data leaves no room, or
// where callers share a node (see Together). Programs that are not turnwise see it as a first line of the data.
func WithTraces(of func(ctx context.Context) string) Option { return func(c *Client) { c.traces = of } }

// noteAfter is how long a hold must last before it says since when.
const noteAfter = time.Second

// remarks are what a node says beside its data: a line each, in front of it.
type remarks struct {
	rank int
	asks string
	// Where there is room:
	trace string
	turn  time.Time
}

const (
	rankHead  = "turnwise rank "
	asksHead  = "turnwise asks "
	traceHead = "turnwise trace "
	turnHead  = "turnwise turn "
	dataHead  = "turnwise data\n" // ends the remarks before data that would be read as one
	turnTime  = "2006-01-02T15:04:05.000Z"
	turnSize  = len(turnHead) + len(turnTime) + 1
)

const (
	mostAsked = 200 // bytes that somebody may ask with
	mostTrace = 100
)

// check says what is wrong with what is to be said beside this data.
func (r remarks) check(data []byte) error {
	trace := r.trace
	r.trace, r.turn = "", time.Time{}
	switch room := MaxData - len(r.before(data)); {
	case len(data) > room:
		return fmt.Errorf("%w: %d bytes of data, at most %d are allowed beside the rank and what it asks", ErrInvalid, len(data), room)
	case len(r.asks) > mostAsked || Printable(r.asks) != r.asks:
		return fmt.Errorf("%w: what it asks is to be one line of at most %d bytes, all printable", ErrInvalid, mostAsked)
	case len(trace) > mostTrace || Printable(trace) != trace:
		return fmt.Errorf("%w: a trace is to be one line of at most %d bytes, all printable", ErrInvalid, mostTrace)
	}
	return nil
}

// before returns what stands in front of the data. For the trace and the turn there is room or not.
func (r remarks) before(data []byte) (b []byte) {
	if r.rank != 0 {
		b = append(strconv.AppendInt(append(b, rankHead...), int64(r.rank), 10), '\n')
	}
	if r.asks != "" {
		b = append(append(append(b, asksHead...), r.asks...), '\n')
	}
	if r.trace != "" && len(b)+len(traceHead)+len(r.trace)+1+len(data) <= MaxData {
		b = append(append(append(b, traceHead...), r.trace...), '\n')
	}
	if !r.turn.IsZero() && len(b)+turnSize+len(data) <= MaxData {
		b = append(r.turn.UTC().AppendFormat(append(b, turnHead...), turnTime), '\n')
	}
	if misread(b, data) {
		b = append(b, dataHead...)
	}
	return b
}

// misread reports whether data that stands right behind these remarks would be taken for one: it may be somebody else's text.
func misread(said, data []byte) bool {
	if !bytes.HasPrefix(data, []byte("turnwise ")) {
		return false
	}
	for bytes.HasPrefix(data, []byte(dataHead)) {
		data = data[len(dataHead):]
	}
	return len(cutRemarks(Node{Data: append(bytes.Clone(said), data...)}).Data) != len(data)
}

// ofHold returns what still stands there when its turn has come: it asks for nothing any more.
func (r remarks) ofHold() remarks { return remarks{rank: r.rank, trace: r.trace} }

// traceOf returns what a call's node says of its trace. A function of a user's may say anything.
func (c *Client) traceOf(ctx context.Context) string {
	trace := c.traces(ctx)
	if (remarks{trace: trace}).check(nil) != nil {
		return ""
	}
	return trace
}

// with returns a copy of data with the remarks in front.
func (r remarks) with(data []byte) []byte {
	if b := r.before(data); len(b) > 0 {
		return append(b, data...)
	}
	return bytes.Clone(data)
}

// readRemarks takes the remarks out of a node's data. What is written in any other way than ours is data.
func readRemarks(n Node) Node {
	all := n.Data
	n = cutRemarks(n)
	if data, ended := bytes.CutPrefix(n.Data, []byte(dataHead)); ended && misread(all[:len(all)-len(n.Data)], data) {
		n.Data = data
	}
	return n
}

func cutRemarks(n Node) Node {
	n.Rank = cutRemark(&n, rankHead, func(text string) remarks {
		rank, _ := strconv.Atoi(text)
		return remarks{rank: rank}
	}).rank
	n.Asks = cutRemark(&n, asksHead, func(text string) remarks { return remarks{asks: text} }).asks
	n.Trace = cutRemark(&n, traceHead, func(text string) remarks { return remarks{trace: text} }).trace
	n.Turn = cutRemark(&n, turnHead, func(text string) remarks {
		turn, _ := time.Parse(turnTime, text)
		return remarks{turn: turn}
	}).turn
	return n
}

// cutRemark takes a remark out of the data, if that begins with one of the kind.
func cutRemark(n *Node, head string, read func(text string) remarks) remarks {
	if !bytes.HasPrefix(n.Data, []byte(head)) { // nearly always
		return remarks{}
	}
	line, behind, ended := bytes.Cut(n.Data, []byte("\n"))
	if !ended {
		return remarks{}
	}
	r := read(string(line[len(head):]))
	if string(r.before(nil)) != string(line)+"\n" || r.check(nil) != nil {
		return remarks{}
	}
	if n.Data = behind; len(behind) == 0 {
		n.Data = nil
	}
	return r
}

// note writes into the node since when it is held. If that fails nobody is the worse for it.
func (h *Hold) note() {
	ctx, cancel := context.WithTimeout(h.ctx, h.acquired.client.driver.RequestTimeout())
	defer cancel()
	if h.beginChange(ctx) != nil {
		return
	}
	defer func() { <-h.changing }()
	if h.Unsettled() {
		return
	}
	h.says.turn = h.since
	now := readRemarks(h.place.Node())
	_ = h.amend(ctx, now.Kind, h.says.with(now.Data))
}
