//go:build linux || darwin

package file

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
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
	messageLook  = 'l' // notes may have been lost
	messageNote  = 'n' // the length of the topic in two bytes, the topic, the text
	messageAside = 'a' // the name of a file that holds what follows 'n'
)

const messageHead = 3

func message(kind byte, rest []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{kind}, uint16(len(rest))), rest...)
}

// lostFile is the file beside a pipe that says that notes were lost.
func lostFile(topic, pipe string) string { return topic + "/." + pipe + ".lost" }

// tell sends a note to those who listen. The lock of the register is held, so notes come in the order of its swaps.
func (p *place) tell(n register.Note) {
	topic := nameOf(n.Topic)
	fd, err := openAt(p.notes, topic, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		return // nobody listens
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	names, _ := namesOf(fd)
	var note []byte
	for _, pipe := range names {
		if pipe[0] == '.' {
			continue
		}
		if note == nil {
			note = binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(n.Topic)+len(n.Text)), uint16(len(n.Topic)))
			note = append(append(note, n.Topic...), n.Text...)
		}
		p.send(topic, pipe, note)
	}
}

// send sends a note to one listener.
func (p *place) send(topic, pipe string, note []byte) {
	m := message(messageNote, note)
	if len(m) > atOnce {
		var unique [6]byte
		rand.Read(unique[:])
		name := fmt.Sprintf(".%s.%x", pipe, unique)
		if p.aside(topic+"/"+name, note) != nil {
			p.lose(topic, pipe)
			return
		}
		m = message(messageAside, []byte(name))
	}
	switch p.put(topic, pipe, m) {
	case nil, unix.ENOENT:
	case unix.ENXIO, unix.EPIPE:
		p.bury(topic, pipe)
	default:
		p.lose(topic, pipe)
	}
}

// put writes a message into a pipe. ENXIO says that there is no reader, because its process is dead.
func (p *place) put(topic, pipe string, m []byte) error {
	fd, err := openAt(p.notes, topic+"/"+pipe, unix.O_WRONLY|unix.O_NONBLOCK, 0)
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
func (p *place) aside(name string, note []byte) error {
	fd, err := openAt(p.notes, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if p.mode != 0o600 {
		err = unix.Fchmod(fd, p.mode)
	}
	if err == nil {
		var n int
		if n, err = unix.Write(fd, note); err == nil && n < len(note) {
			err = unix.ENOSPC
		}
	}
	if err != nil {
		_ = unix.Unlinkat(int(p.notes.Fd()), name, 0)
	}
	return err
}

// bury removes the pipe of a listener that has gone. Its name does not come again.
func (p *place) bury(topic, pipe string) {
	fd := int(p.notes.Fd())
	_ = unix.Unlinkat(fd, topic+"/"+pipe, 0)
	_ = unix.Unlinkat(fd, lostFile(topic, pipe), 0)
	_ = unix.Unlinkat(fd, topic, unix.AT_REMOVEDIR) // if it is empty
}

// lose sees to it that a listener finds out that it has lost a note.
func (p *place) lose(topic, pipe string) {
	fd, marked := openAt(p.notes, lostFile(topic, pipe), unix.O_WRONLY|unix.O_CREAT, 0o600)
	if marked == nil {
		unix.Close(fd)
	}
	// The listener may have emptied the pipe before the file was there, and be asleep: it must look again. If this message does
	// not fit, the listener has yet to empty the pipe.
	switch err := p.put(topic, pipe, message(messageLook, nil)); err {
	case nil, unix.ENOENT:
	case unix.ENXIO, unix.EPIPE:
		p.bury(topic, pipe)
	default:
		if marked != nil || err != unix.EAGAIN {
			p.debts.owe(topic, pipe)
		}
	}
}

// debts are the listeners that have lost a note and could not be told, since the disk is full or too many files are open.
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
		p.lose(who[0], who[1])
	}
}

// sweepNotes removes what listeners whose processes are dead have left.
func (p *place) sweepNotes(ctx context.Context) {
	topics, err := namesIn(p.notes)
	if err != nil {
		return
	}
	for _, topic := range topics {
		fd, err := openAt(p.notes, topic, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		names, _ := namesOf(fd)
		unix.Close(fd)
		for _, name := range names {
			switch {
			case ctx.Err() != nil:
				return
			case name[0] != '.' && !p.listens(topic, name):
				p.bury(topic, name)
			case name[0] == '.' && p.isLeft(topic, name):
				_ = unix.Unlinkat(int(p.notes.Fd()), topic+"/"+name, 0)
			}
		}
		_ = unix.Unlinkat(int(p.notes.Fd()), topic, unix.AT_REMOVEDIR)
	}
}

// isLeft reports whether a file is for a listener who has gone, or a pipe whose process died before it got its name.
func (p *place) isLeft(topic, name string) bool {
	pipe, _, beside := strings.Cut(name[1:], ".")
	if beside {
		name = pipe
	}
	var st unix.Stat_t
	err := again(func() error {
		return unix.Fstatat(int(p.notes.Fd()), topic+"/"+name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if beside {
		return err == unix.ENOENT
	}
	return err == nil && time.Since(time.Unix(st.Mtim.Unix())) > time.Minute
}

// listens reports whether somebody has a pipe open.
func (p *place) listens(topic, pipe string) bool {
	fd, err := openAt(p.notes, topic+"/"+pipe, unix.O_WRONLY|unix.O_NONBLOCK, 0)
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
