package storecheck

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Slowly is the address of a link to a server by which no more than that many bytes a second come back, on all connections together.
// Those take turns.
func Slowly(t testing.TB, server string, perSecond int) (address string) {
	t.Helper()
	var link sync.Mutex
	return Serve(t, func(c net.Conn) {
		up, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer up.Close()
		_ = up.(*net.TCPConn).SetReadBuffer(64 << 10) // what waits does so at the server
		go func() {
			_, _ = io.Copy(up, c)
			up.Close()
		}()
		for b := make([]byte, 64<<10); ; {
			n, err := up.Read(b)
			if err != nil {
				return
			}
			link.Lock()
			time.Sleep(time.Duration(n) * time.Second / time.Duration(perSecond))
			link.Unlock()
			if _, err = c.Write(b[:n]); err != nil {
				return
			}
		}
	})
}
