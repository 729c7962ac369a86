package coord

import (
	"bytes"
	"context"
	"time"
)

// WithTurnNotes has this client's holds say since when they are held: services know when a node joined its line, but not when
// its turn came. A hold that lasts for a second then writes that into its node, once, which costs one request and has those
// right behind look again. Client.Line and the tool show it, as Node.Turn. It is the time of the holder's own clock. Programs
// that are not turnwise see it as a first line of the node's data. Beside it the data has room for some 40 bytes less than
// MaxData; where it needs that room there is no note.
func WithTurnNotes() Option { return func(c *Client) { c.notes = true } }

// noteAfter is how long a hold must last before it says since when.
const noteAfter = time.Second

// A note is a line in front of a node's data.
const (
	noteHead = "turnwise turn "
	noteTime = "2006-01-02T15:04:05.000Z"
	noteSize = len(noteHead) + len(noteTime) + 1
)

// withNote returns data with a note in front, unless turn is zero or there is no room.
func withNote(turn time.Time, data []byte) []byte {
	if turn.IsZero() || len(data)+noteSize > MaxData {
		return bytes.Clone(data)
	}
	noted := make([]byte, 0, noteSize+len(data))
	noted = append(noted, noteHead...)
	noted = turn.UTC().AppendFormat(noted, noteTime)
	noted = append(noted, '\n')
	return append(noted, data...)
}

// readNote takes the note out of a node's data.
func readNote(n Node) Node {
	text, is := bytes.CutPrefix(n.Data, []byte(noteHead))
	if !is || len(text) <= len(noteTime) || text[len(noteTime)] != '\n' {
		return n
	}
	turn, err := time.Parse(noteTime, string(text[:len(noteTime)]))
	if err != nil || turn.Format(noteTime) != string(text[:len(noteTime)]) { // such as a comma before the fraction
		return n
	}
	n.Turn, n.Data = turn, text[len(noteTime)+1:]
	if len(n.Data) == 0 {
		n.Data = nil
	}
	return n
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
	h.noted = h.since
	now := h.place.Node()
	_ = h.amend(ctx, now.Kind, withNote(h.noted, now.Data))
}
