package nats

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/turnwise/turnwise/coord/register"
)

// notesHeader is the header of a message that has the notes of its swap. The stream publishes the headers of what it has stored
// once more, under a subject that all stores listen to. So notes are told if and only if the swap was applied, in its order.
const notesHeader = "Turnwise-Notes"

// notesRoom is what a message may have of notes, encoded. JetStream refuses one whose headers have more than 64 KiB together.
const notesRoom = 63 << 10

func (c *config) toldSubject() string { return c.root + ".told.>" }

// ears are all who listen.
type ears struct {
	mu     sync.Mutex
	topics map[string]map[*ear]struct{}
}

type ear struct {
	mu   sync.Mutex
	hear func([]byte) // nil when it has stopped
}

func (e *ear) tell(note []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hear != nil {
		e.hear(note)
	}
}

func (a *ears) add(topic string, e *ear) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.topics[topic] == nil {
		a.topics[topic] = make(map[*ear]struct{})
	}
	a.topics[topic][e] = struct{}{}
}

func (a *ears) remove(topic string, e *ear) {
	a.mu.Lock()
	if delete(a.topics[topic], e); len(a.topics[topic]) == 0 {
		delete(a.topics, topic)
	}
	a.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hear = nil
}

// of returns those who listen to a topic.
func (a *ears) of(topic string) (all []*ear) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for e := range a.topics[topic] {
		all = append(all, e)
	}
	return all
}

// missed tells everybody that notes may have been missed.
func (a *ears) missed() {
	var all []*ear
	a.mu.Lock()
	for _, some := range a.topics {
		for e := range some {
			all = append(all, e)
		}
	}
	a.mu.Unlock()
	for _, e := range all {
		e.tell(nil)
	}
}

// told passes on what a header has for topics that somebody here listens to.
func (a *ears) told(header string) {
	if header == "" {
		return
	}
	b, err := base64.RawStdEncoding.DecodeString(header)
	if err != nil { // too many, or a stranger's
		a.missed()
		return
	}
	for len(b) > 0 {
		topic, rest, ok := cutText(b)
		note, rest, ok2 := cutText(rest)
		if !ok || !ok2 {
			a.missed()
			return
		}
		for _, e := range a.of(string(topic)) {
			e.tell(slices.Clone(note))
		}
		b = rest
	}
}

func cutText(b []byte) (text, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	return b[k : k+int(n)], b[k+int(n):], true
}

func encodeNotes(notes []register.Note) string {
	var b []byte
	for _, n := range notes {
		for _, text := range [][]byte{[]byte(n.Topic), n.Text} {
			b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
		}
	}
	if text := base64.RawStdEncoding.EncodeToString(b); len(text) <= notesRoom {
		return text
	}
	return "lost!" // they are too many: this is not base64
}
