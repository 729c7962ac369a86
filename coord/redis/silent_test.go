package redis

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// A sentinel that is frozen, or somebody in its place, lets a handshake never end. The next sentinel is asked all the same.
func TestASentinelThatIsSilentKeepsNobodyFromAskingTheNext(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	var asked atomic.Bool
	healthy := serving(t, &tls.Config{Certificates: web.TLS.Certificates}, func(command []string) string {
		asked.Store(true)
		if says, ok := hello(command); ok {
			return says
		}
		return "-ERR no more\r\n"
	})
	address := "rediss://" + storecheck.Liar(t, "", "") + "?addr=" + healthy + "&master_set=orders"
	begun := time.Now()
	_, err := Open(redistest.Within(t, 20*time.Second), address, WithTLS(&tls.Config{RootCAs: roots, ServerName: "example.com"}))
	if !asked.Load() {
		t.Errorf("after %v nobody has asked the healthy one: %v", time.Since(begun), err)
	}
}
