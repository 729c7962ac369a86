//go:build unix

package servers_test

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestWithTLSOnlyThoseWithACertificateGetIn(t *testing.T) {
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			c := s.start(t, append(s.opts, servers.TLS())...)
			conn, err := tls.Dial("tcp", c.Addrs()[0], c.TLSConfig())
			require.NoError(t, err)
			defer conn.Close()
			// With TLS 1.3 a refusal comes with a read, not from the handshake; silence means welcome.
			require.NoError(t, conn.SetDeadline(time.Now().Add(300*time.Millisecond)))
			_, err = conn.Read(make([]byte, 1))
			if err != nil {
				require.ErrorContains(t, err, "timeout")
			}

			stranger := c.TLSConfig()
			stranger.Certificates = nil
			conn, err = tls.Dial("tcp", c.Addrs()[0], stranger)
			if err == nil {
				defer conn.Close()
				require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
				_, err = conn.Read(make([]byte, 1))
			}
			require.Error(t, err)
			require.NotContains(t, err.Error(), "timeout")
		})
	}
	require.Nil(t, servers.ZooKeeper(t, servers.Shared()).TLSConfig())
}
