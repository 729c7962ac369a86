//go:build linux || darwin

package file

import (
	"context"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
)

// A listener to a topic has a socket in the topic's directory, and a note is a datagram to each of these: the length of the
// topic in two bytes, the topic, the text. A single byte says: look for yourself.
//
// A socket's queue is short. When a note does not fit, there is a file beside the socket from then on, and the listener is
// told to look. It looks for that file whenever it has emptied its queue; so it finds out, also if it is asleep now and we
// are dead when it wakes up.

// lostFile is the file beside a socket that says that notes were lost.
func lostFile(topic, socket string) string { return topic + "/." + socket + ".lost" }

// look is the datagram that tells a listener to look.
var lookNow = []byte{0}

// tell tells those who listen. The lock of the register is held: so notes come in the order of its swaps.
func (p *place) tell(n register.Note) {
	topic := nameOf(n.Topic, shortName)
	fd, err := openAt(p.notes, topic, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return // nobody has listened yet
	}
	names, _ := namesOf(fd)
	unix.Close(fd)
	var message []byte
	for _, socket := range names {
		if socket[0] == '.' {
			continue
		}
		if message == nil {
			message = binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(n.Topic)+len(n.Text)), uint16(len(n.Topic)))
			message = append(append(message, n.Topic...), n.Text...)
		}
		switch err := p.send(p.voice, topic, socket, message); err {
		case nil, unix.ENOENT:
		case unix.ECONNREFUSED:
			p.bury(topic, socket)
		default:
			p.lose(topic, socket)
		}
	}
}

func (p *place) send(voice int, topic, socket string, message []byte) error {
	to := &unix.SockaddrUnix{Name: p.address(notesDir + "/" + topic + "/" + socket)}
	err := again(func() error { return unix.Sendto(voice, message, unix.MSG_DONTWAIT, to) })
	if err == unix.ENOENT && p.linked && p.shorten() == nil {
		err = again(func() error { return unix.Sendto(voice, message, unix.MSG_DONTWAIT, to) })
	}
	return err
}

// bury removes the socket of a process that is dead. Its name does not come again.
func (p *place) bury(topic, socket string) {
	fd := int(p.notes.Fd())
	_ = unix.Unlinkat(fd, topic+"/"+socket, 0)
	_ = unix.Unlinkat(fd, lostFile(topic, socket), 0)
	_ = unix.Unlinkat(fd, topic, unix.AT_REMOVEDIR) // if it is empty
}

// lose sees to it that a listener finds out that it has lost a note.
func (p *place) lose(topic, socket string) {
	if !p.mark(topic, socket) {
		p.debts.owe(topic, socket)
	}
}

// mark reports whether a listener will find out that it has lost a note. The file alone is no use to one who sleeps, with
// nothing in its queue: so it is told to look, through a socket of its own, since ours may have too much on its way to
// others who sleep. If that does not fit either, it has yet to empty its queue.
func (p *place) mark(topic, socket string) bool {
	fd, err := openAt(p.notes, lostFile(topic, socket), unix.O_WRONLY|unix.O_CREAT, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	voice, err2 := datagrams()
	if err2 != nil {
		return false
	}
	defer unix.Close(voice)
	switch p.send(voice, topic, socket, lookNow) {
	case nil, unix.ENOENT, unix.ECONNREFUSED:
		return true // one who reads this looks, without the file, too
	case unix.EAGAIN, unix.ENOBUFS:
		return err == nil || err == unix.ENOENT
	}
	return false
}

// debts are the listeners who have lost a note and could not be told, since a disk is full or files are short.
type debts struct {
	mu   sync.Mutex
	owed map[[2]string]struct{}
}

func (d *debts) owe(topic, socket string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owed == nil {
		d.owed = make(map[[2]string]struct{})
	}
	d.owed[[2]string{topic, socket}] = struct{}{}
}

// settleDebts tries again.
func (p *place) settleDebts() {
	p.debts.mu.Lock()
	owed := p.debts.owed
	p.debts.owed = nil
	p.debts.mu.Unlock()
	for who := range owed {
		p.lose(who[0], who[1])
	}
}

// sweepNotes removes the sockets of processes that are dead.
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
			if ctx.Err() != nil {
				return
			}
			switch {
			case name[0] != '.' && !p.listens(topic, name):
				p.bury(topic, name)
			case name[0] == '.' && p.isLeft(topic, name):
				_ = unix.Unlinkat(int(p.notes.Fd()), topic+"/"+name, 0)
			}
		}
		_ = unix.Unlinkat(int(p.notes.Fd()), topic, unix.AT_REMOVEDIR)
	}
}

// isLeft reports whether somebody has died before a socket got its name, or the listener whom a file is for has gone.
func (p *place) isLeft(topic, name string) bool {
	socket, lost := strings.CutSuffix(name[1:], ".lost")
	if lost {
		name = socket
	}
	var st unix.Stat_t
	err := again(func() error {
		return unix.Fstatat(int(p.notes.Fd()), topic+"/"+name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if lost {
		return err == unix.ENOENT
	}
	return err == nil && time.Since(time.Unix(st.Mtim.Unix())) > time.Minute
}

// listens reports whether somebody has a socket open.
func (p *place) listens(topic, socket string) bool {
	fd, err := datagrams()
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return again(func() error {
		return unix.Connect(fd, &unix.SockaddrUnix{Name: p.address(notesDir + "/" + topic + "/" + socket)})
	}) != unix.ECONNREFUSED
}
