package storecheck

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// Serve is the address of something that talks to whoever connects. A connection is closed when that returns, and with the
// test.
func Serve(t testing.TB, talk func(c net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ServeAt(t, l, talk)
	return l.Addr().String()
}

// ServeAt is Serve for who listens already.
func ServeAt(t testing.TB, l net.Listener, talk func(c net.Conn)) {
	var running sync.WaitGroup
	t.Cleanup(func() { l.Close(); running.Wait() })
	end := t.Context()
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				defer context.AfterFunc(end, func() { c.Close() })()
				talk(c)
			})
		}
	})
}

// Squat listens as another user of the machine at a socket in a directory that everybody may write to, as /tmp is, and talks to
// whoever connects. It returns the directory.
func Squat(t testing.TB, name string, talk func(c net.Conn)) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "squat") // on the way to t.TempDir there may be folders that are ours alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	AsUser(t, 12346, func() { l, err = net.Listen("unix", filepath.Join(dir, name)) })
	if err != nil {
		t.Fatal(err)
	}
	ServeAt(t, l, talk)
	return dir
}

// Liar is the address of something that says begin to whoever connects, without waiting to be asked, and then says more
// without end. If more is empty it falls silent instead.
func Liar(t testing.TB, begin, more string) (address string) {
	t.Helper()
	return Serve(t, func(c net.Conn) {
		Say(c, begin, more)
		io.Copy(io.Discard, c) // until it hangs up
	})
}

// Say says begin, and then more without end if there is any.
func Say(c net.Conn, begin, more string) error {
	_, err := io.WriteString(c, begin)
	for err == nil && more != "" {
		_, err = io.WriteString(c, more)
	}
	return err
}

// Lies opens a store at a liar in vain: within its context, in little memory, and with an error that says why, unless that came
// too late, and shows no password.
func Lies[S register.Store](t testing.TB, says string, open func(ctx context.Context) (S, error)) {
	t.Helper()
	Bounded(t, 250, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		begun := time.Now()
		s, err := open(ctx)
		if err == nil {
			s.Close()
			t.Fatal("it was opened")
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		late := errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timeout") || strings.Contains(err.Error(), "deadline exceeded")
		if t.Log(err); !strings.Contains(err.Error(), says) && !late || strings.Contains(err.Error(), "secret") {
			t.Errorf("it should say %q", says)
		}
	})
}

// Bounded runs do, and fails the test if the heap grows by more than some megabytes meanwhile.
func Bounded(t testing.TB, most int, do func()) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is let go counts little, however quick the machine is
	runtime.GC()
	heap := func() int {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc >> 20)
	}
	begun := heap()
	peak, done, watched := begun, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			peak = max(peak, heap())
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	do()
	close(done)
	<-watched
	if grown := peak - begun; grown > most {
		t.Errorf("the heap grew by %d MB, and may by %d", grown, most)
	}
}
