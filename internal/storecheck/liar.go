package storecheck

import (
	"context"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Liar is the address of something that says begin to whoever connects, without waiting to be asked, and then says more
// without end. If more is empty it falls silent instead.
func Liar(t testing.TB, begin, more string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
				_, err := io.WriteString(c, begin)
				for err == nil && more != "" {
					_, err = io.WriteString(c, more)
				}
				io.Copy(io.Discard, c) // until it hangs up
			})
		}
	})
	return l.Addr().String()
}

// Bounded runs do, and fails the test if the heap grows by more than some megabytes meanwhile.
func Bounded(t testing.TB, most int, do func()) {
	t.Helper()
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
