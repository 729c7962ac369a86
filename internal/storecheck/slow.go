package storecheck

import (
	"io"
	"net"
	"testing"
)

// Clogged is the address of a link to a server by which a connection that has brought more than so many bytes brings nothing more.
func Clogged(t testing.TB, server string, after int64) (address string) {
	t.Helper()
	return Serve(t, func(c net.Conn) {
		up, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer up.Close()
		go func() { _, _ = io.CopyN(c, up, after) }()
		_, _ = io.Copy(up, c)
	})
}
