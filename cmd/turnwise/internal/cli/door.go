//go:build linux || darwin

package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// door is where a 'turnwise hold' in the background is asked what it holds, to hold for the shell that asks, and to release it. What a line says of its
// owners may come from anybody, and a process number may mean another process by now. So only what the holder itself says
// counts: it listens on a socket that nobody but its user can make or speak on.
type door struct {
	says   doorplate
	asked  func()              // somebody has asked for the release
	adopt  func(pid int) error // or to hold until this process ends
	path   string
	listen *net.UnixListener
	over   chan struct{} // closed when the answer is known
	answer doorAnswer
	inside sync.WaitGroup // those who wait for the answer
}

// doorplate is what a holder says of itself, at once, to whoever connects.
type doorplate struct {
	Line    string      `json:"line"`
	Service string      `json:"service"` // backend.Service.ID
	Token   coord.Token `json:"token"`
	PID     int         `json:"pid"` // for people: it may be that of another namespace
}

// doorRequest asks for the release of the hold with this token, and of no other; or to have it held for a process.
type doorRequest struct {
	Release coord.Token `json:"release,omitempty"`
	For     int         `json:"for,omitempty"`
}

type doorAnswer struct {
	Released bool   `json:"released,omitempty"`
	Adopted  bool   `json:"adopted,omitempty"`
	Why      string `json:"why,omitempty"`
}

const (
	socketSuffix = ".hold"
	answerFor    = 2 * time.Second  // how long a holder may take to say what it has
	releaseFor   = 10 * time.Second // and to release it
	mostSaid     = 64 << 10         // bytes that either says
)

// hearing decodes what is said at the other end of a socket, as far as that has a sensible length.
func hearing(c net.Conn) *json.Decoder { return json.NewDecoder(io.LimitReader(c, mostSaid)) }

// doorDirs are where a user's holders may listen, the best first. They go by who the user is, not by variables: those
// differ between a cron job and a shell.
func doorDirs() []string {
	uid := os.Geteuid()
	return []string{fmt.Sprintf("/run/user/%d/turnwise", uid), fmt.Sprintf("/tmp/turnwise-%d", uid)}
}

// doorName is what the names of all sockets begin with that may be of holders of a line.
func doorName(line, service string) string {
	sum := sha256.Sum256([]byte(service + "\x00" + line))
	return hex.EncodeToString(sum[:8]) + "-"
}

// isOurs reports whether a directory is ours, and nobody else can put anything there.
func isOurs(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || int(sys.Uid) != os.Geteuid() || st.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is no directory of this user's with mode 0700", dir)
	}
	return nil
}

// makeOurs makes such a directory, if there is none.
func makeOurs(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // whatever the umask has taken away: it would be refused ever after
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return isOurs(dir)
}

// openDoor listens. A door has its name only when somebody answers behind it: what does not answer is left over.
func openDoor(says doorplate, asked func(), adopt func(pid int) error) (*door, error) {
	var errs []error
	for _, dir := range doorDirs() {
		err := makeOurs(dir)
		var l *net.UnixListener
		name := fmt.Sprintf("%s%d-%08x", doorName(says.Line, says.Service), os.Getpid(), rand.Uint32())
		begun, path := filepath.Join(dir, "."+name), filepath.Join(dir, name+socketSuffix)
		if err == nil {
			l, err = net.ListenUnix("unix", &net.UnixAddr{Name: begun, Net: "unix"})
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.SetUnlinkOnClose(false)
		err = os.Chmod(begun, 0o600)
		if err == nil {
			err = os.Rename(begun, path)
		}
		if err != nil {
			l.Close()
			os.Remove(begun)
			errs = append(errs, err)
			continue
		}
		d := &door{says: says, asked: asked, adopt: adopt, path: path, listen: l, over: make(chan struct{})}
		go d.serve()
		return d, nil
	}
	return nil, errors.Join(errs...)
}

func (d *door) serve() {
	for {
		c, err := d.listen.AcceptUnix()
		if err != nil {
			return
		}
		d.inside.Go(func() {
			defer c.Close()
			if p, err := peerOf(c); err == nil && p.uid == os.Geteuid() {
				d.speak(c, p)
			}
		})
	}
}

// peer is who is at the other end of a socket.
type peer struct{ uid, pid int } // 0: the process is not to be seen from here

func peerOf(c *net.UnixConn) (p peer, err error) {
	p.uid = -1
	raw, err := c.SyscallConn()
	if err != nil {
		return p, err
	}
	failed := raw.Control(func(fd uintptr) { p, err = peerAt(int(fd)) })
	return p, errors.Join(failed, err)
}

func (d *door) speak(c net.Conn, with peer) {
	_ = c.SetDeadline(time.Now().Add(answerFor))
	if json.NewEncoder(c).Encode(d.says) != nil {
		return
	}
	var r doorRequest
	if hearing(c).Decode(&r) != nil {
		return
	}
	if r.For > 0 {
		a := doorAnswer{Adopted: true}
		err := with.sameNumbers()
		if err == nil {
			err = d.adopt(r.For)
		}
		if err != nil {
			a = doorAnswer{Why: err.Error()}
		}
		_ = json.NewEncoder(c).Encode(a)
		return
	}
	if r.Release != d.says.Token {
		return
	}
	d.asked()
	<-d.over
	_ = c.SetDeadline(time.Now().Add(answerFor))
	_ = json.NewEncoder(c).Encode(d.answer)
}

// close says what has become of the hold to those who have asked for its release. A door that could not be opened is nil.
func (d *door) close(err error) {
	if d == nil {
		return
	}
	os.Remove(d.path)
	d.listen.Close()
	d.answer = doorAnswer{Released: err == nil}
	if err != nil {
		d.answer.Why = err.Error()
	}
	close(d.over)
	d.inside.Wait()
}

// visit is a holder that has said what it has.
type visit struct {
	doorplate
	conn net.Conn
	in   *json.Decoder
}

// visitAll asks all of this user's holders that may have a line what they have. mute is how many do not answer.
func visitAll(ctx context.Context, line, service string) (visits []*visit, mute int) {
	type reply struct {
		*visit
		err error
	}
	replies, n := make(chan reply), 0
	for _, dir := range doorDirs() {
		if isOurs(dir) != nil {
			continue
		}
		all, _ := os.ReadDir(dir)
		for _, e := range all {
			if !strings.HasPrefix(e.Name(), doorName(line, service)) || !strings.HasSuffix(e.Name(), socketSuffix) {
				continue
			}
			n++
			go func() {
				v, err := visitOne(ctx, filepath.Join(dir, e.Name()))
				replies <- reply{v, err}
			}()
		}
	}
	for range n {
		switch r := <-replies; {
		case r.err == nil:
			visits = append(visits, r.visit)
		case errors.Is(r.err, os.ErrDeadlineExceeded):
			mute++
		}
	}
	return visits, mute
}

func visitOne(ctx context.Context, path string) (*visit, error) {
	ctx, cancel := context.WithTimeout(ctx, answerFor)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if errors.Is(err, syscall.ECONNREFUSED) && isSocket(path) { // who listened has died; a plain file refuses as well
		os.Remove(path)
	}
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(answerFor))
	v := &visit{conn: c, in: hearing(c)}
	with, err := peerOf(c.(*net.UnixConn))
	if err == nil && with.uid != os.Geteuid() {
		err = fs.ErrPermission
	}
	if err == nil {
		err = v.in.Decode(&v.doorplate)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return v, nil
}

// release has the holder release what it has.
func (v *visit) release(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { v.conn.Close() })()
	_ = v.conn.SetDeadline(time.Now().Add(releaseFor))
	var a doorAnswer
	err := json.NewEncoder(v.conn).Encode(doorRequest{Release: v.Token})
	if err == nil {
		err = v.in.Decode(&a)
	}
	switch {
	case ctx.Err() != nil:
		return refused(ctx.Err())
	case err != nil:
		return fail(codeUnreachable, "%q: the 'turnwise hold' that has it, process %d, does not answer: %w", v.Line, v.PID, err)
	case !a.Released:
		return fail(codeUnreachable, "%q: %s", v.Line, coord.Printable(a.Why))
	}
	return nil
}
