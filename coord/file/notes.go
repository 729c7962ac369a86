//go:build linux || darwin

package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
)

// A listener to a topic has a named pipe in the topic's directory, and a note is a message in each of these. A message that
// is short enough for the kernel to write at once is there as a whole or not at all, and messages come in the order in which
// they were written. A longer note goes into a file of its own, and the name of the file into the pipe.
//
// When a pipe is full, the sender puts a file beside it that says so. The listener looks for that file whenever it has
// emptied the pipe. So it finds out even if it is asleep now and the sender is dead when it wakes up.
//
// (A Unix socket would take only eleven datagrams, and the length of its path is limited.)

// A message is its kind, the length of the rest in two bytes, and the rest.
const (
	messageLook  = 'l' // notes may have been missed
	messageNote  = 'n' // the length of the topic in two bytes, the topic, the text
	messageAside = 'a' // the name of a file that holds what follows 'n'
)

const messageHead = 3

func message(kind byte, rest []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{kind}, uint16(len(rest))), rest...)
}

// missedFile is the file beside a pipe that says that notes were missed.
func missedFile(pipe string) string { return "." + pipe + ".lost" }

// tell sends a note to those who listen. The lock of the register is held, so notes come in the order of its swaps.
func (p *place) tell(n register.Note) {
	topic := nameOf(n.Topic)
	d, err := p.notes.visit(topic)
	if err != nil {
		return // nobody listens
	}
	defer d.close()
	names, _ := namesOf(d.fd())
	var note []byte
	for _, pipe := range names {
		if !isPipe(pipe) {
			continue
		}
		if note == nil {
			note = binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(n.Topic)+len(n.Text)), uint16(len(n.Topic)))
			note = append(append(note, n.Topic...), n.Text...)
		}
		p.send(d, topic, pipe, note)
	}
}

// send sends a note to one listener.
func (p *place) send(d *dir, topic, pipe string, note []byte) {
	m := message(messageNote, note)
	if len(m) > atOnce {
		name := fmt.Sprintf(".%s.%s", pipe, unique())
		if aside(d, name, note) != nil {
			p.tellMissed(d, topic, pipe)
			return
		}
		m = message(messageAside, []byte(name))
	}
	switch write(d, pipe, m) {
	case nil, unix.ENOENT, errNotOurs:
	case unix.ENXIO, unix.EPIPE:
		p.bury(d, topic, pipe)
	default:
		p.tellMissed(d, topic, pipe)
	}
}

// write writes a message into a pipe. ENXIO says that there is no reader, because its process is dead.
func write(d *dir, pipe string, m []byte) error {
	fd, err := d.pipe(pipe, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return again(func() error {
		_, err := unix.Write(fd, m)
		return err
	})
}

// aside writes a long note into a file.
func aside(d *dir, name string, note []byte) error {
	fd, err := d.makeFile(name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.Write(fd, note)
	if err == nil && n < len(note) {
		err = unix.ENOSPC
	}
	if err != nil {
		d.remove(name)
	}
	return err
}

// bury removes the pipe of a listener that has gone. Its name does not come again.
func (p *place) bury(d *dir, topic, pipe string) {
	d.remove(pipe)
	d.remove(missedFile(pipe))
	p.notes.removeSub(topic)
}

// tellMissed sees to it that a listener finds out that it has missed a note.
func (p *place) tellMissed(d *dir, topic, pipe string) {
	fd, marked := d.makeFile(missedFile(pipe), unix.O_WRONLY)
	if marked == nil {
		unix.Close(fd)
	} else if marked == unix.EEXIST {
		marked = nil
	}
	// The listener may have emptied the pipe before the file was there, and be asleep: it must look again. If this message does
	// not fit, the listener has yet to empty the pipe.
	switch err := write(d, pipe, message(messageLook, nil)); err {
	case nil, unix.ENOENT, errNotOurs:
	case unix.ENXIO, unix.EPIPE:
		p.bury(d, topic, pipe)
	default:
		if marked != nil || err != unix.EAGAIN {
			p.debts.owe(topic, pipe)
		}
	}
}

// debts are the listeners that have missed a note and could not be told, since the disk is full or too many files are open.
type debts struct {
	mu   sync.Mutex
	owed map[[2]string]struct{}
}

func (d *debts) owe(topic, pipe string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owed == nil {
		d.owed = make(map[[2]string]struct{})
	}
	d.owed[[2]string{topic, pipe}] = struct{}{}
}

// settleDebts tries again to tell them.
func (p *place) settleDebts() {
	p.debts.mu.Lock()
	owed := p.debts.owed
	p.debts.owed = nil
	p.debts.mu.Unlock()
	for who := range owed {
		d, err := p.notes.visit(who[0])
		if err == nil {
			p.tellMissed(d, who[0], who[1])
			d.close()
		} else if !errors.Is(err, unix.ENOENT) {
			p.debts.owe(who[0], who[1])
		}
	}
}

// sweepNotes removes what listeners whose processes are dead have left.
func (p *place) sweepNotes(ctx context.Context) {
	topics, err := p.notes.names()
	if err != nil {
		return
	}
	for _, topic := range topics {
		d, err := p.notes.visit(topic)
		if err != nil {
			continue
		}
		names, _ := d.names()
		for _, name := range names {
			switch {
			case ctx.Err() != nil:
				d.close()
				return
			case isPipe(name) && !listens(d, name):
				p.bury(d, topic, name)
			case isLeft(d, name):
				d.remove(name)
			}
		}
		d.close()
		p.notes.removeSub(topic)
	}
}

// isLeft reports whether a file is for a listener who has gone, or a pipe whose process died before it got its name.
func isLeft(d *dir, name string) bool {
	pipe, what, beside := isBeside(name)
	if !beside {
		return false
	}
	if what != "" {
		_, err := d.stat(pipe)
		return err == unix.ENOENT
	}
	st, err := d.stat(name)
	return err == nil && time.Since(time.Unix(st.Mtim.Unix())) > time.Minute
}

// listens reports whether somebody has a pipe open.
func listens(d *dir, pipe string) bool {
	fd, err := d.pipe(pipe, unix.O_WRONLY)
	if err == nil {
		unix.Close(fd)
	}
	return err != unix.ENXIO
}

// messages splits what was read from a pipe into messages, and returns what is left: the beginning of one.
func messages(b []byte, each func(kind byte, rest []byte)) (left []byte) {
	for len(b) >= messageHead {
		size := messageHead + int(binary.BigEndian.Uint16(b[1:]))
		if len(b) < size {
			break
		}
		each(b[0], b[messageHead:size])
		b = b[size:]
	}
	return b
}

// textFor returns the text of a note if it is for the topic: the name of another topic may collide.
func textFor(topic string, note []byte) (text []byte, ok bool) {
	if len(note) < 2 {
		return nil, false
	}
	size := 2 + int(binary.BigEndian.Uint16(note))
	if len(note) < size || string(note[2:size]) != topic {
		return nil, false
	}
	return bytes.Clone(note[size:]), true
}
