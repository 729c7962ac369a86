//go:build linux || darwin

package cli

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// sayWithoutEnd returns how much somebody can say before he is hung up on.
func sayWithoutEnd(t *testing.T, c net.Conn) (said int) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	more := make([]byte, 1<<20)
	for i := range more {
		more[i] = 'x'
	}
	_, err := io.WriteString(c, `{"line":"`)
	for n := 0; err == nil && said < 64<<20; said += n {
		n, err = c.Write(more)
	}
	return said
}

func TestWhoSpeaksWithoutEndAtADoorIsHungUpOn(t *testing.T) {
	t.Chdir(t.TempDir()) // a socket's path may have 107 bytes, and TMPDIR may be long
	listen := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	const most = 4 << 20 // the kernel keeps some
	t.Run("a visitor", func(t *testing.T) {
		d := &door{listen: listen("holder"), asked: func() { t.Error("the release was asked for") }, over: make(chan struct{})}
		go d.serve()
		defer d.close(nil)
		c, err := net.Dial("unix", "holder")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if said := sayWithoutEnd(t, c); said > most {
			t.Errorf("%d bytes are listened to", said)
		}
	})
	t.Run("a holder", func(t *testing.T) {
		l := listen("visited")
		defer l.Close()
		said := make(chan int, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				said <- -1
				return
			}
			defer c.Close()
			said <- sayWithoutEnd(t, c)
		}()
		if v, err := visitOne(t.Context(), "visited"); err == nil {
			v.conn.Close()
			t.Error("it is believed")
		}
		if n := <-said; n < 0 || n > most {
			t.Errorf("%d bytes are listened to", n)
		}
	})
}

// What somebody names that is no socket answers like one behind which nobody is any more.
func TestAFileInThePlaceOfADoorStays(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("precious", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("precious", "link"); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "left", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for name, stays := range map[string]bool{"precious": true, "link": true, "left": false} {
		if v, err := visitOne(t.Context(), name); err == nil {
			v.conn.Close()
			t.Errorf("somebody answers at %s", name)
		}
		if _, err := os.Lstat(name); stays != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A directory that a umask has spoilt would be refused for as long as it is there.
func TestAUmaskSpoilsNoDirectoryOfSockets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sockets")
	was := syscall.Umask(0o177)
	err := makeOurs(dir)
	syscall.Umask(was)
	if err == nil {
		err = makeOurs(dir)
	}
	if err != nil {
		t.Error(err)
	}
}
