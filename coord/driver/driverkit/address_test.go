package driverkit

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"
)

func TestWhatStaysOnThisMachine(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:2181": true, "127.8.9.1:1": true, "[::1]:2379": true, "localhost:2379": true, "localhost": true, "127.0.0.1": true, "::1": true,
		"": false, ":2379": false, "10.0.0.1:2379": false, "zk1:2181": false, "localhost.example:1": false, "[::]:1": false, "0.0.0.0:1": false,
		"::1:2181": false,
	} {
		if OnThisMachine(addr) != want {
			t.Errorf("%q: %v", addr, !want)
		}
	}
}

func TestWhereAPasswordMayGo(t *testing.T) {
	own := func([][]byte, [][]*x509.Certificate) error { return nil }
	for _, c := range []struct {
		addr string
		cfg  *tls.Config
		fine bool
	}{
		{"127.0.0.1:1", nil, true}, {"/run/socket", nil, true}, {"db:1", &tls.Config{}, true},
		{"db:1", nil, false}, {"", nil, false}, {"db:1", &tls.Config{InsecureSkipVerify: true}, false},
		{"localhost:1", &tls.Config{InsecureSkipVerify: true}, true}, {"db:1", &tls.Config{InsecureSkipVerify: true, VerifyPeerCertificate: own}, true},
	} {
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		err := CheckPassword(c.addr, c.cfg, false, log)
		if (err == nil) != c.fine || err != nil && (!strings.Contains(err.Error(), "cleartext=yes") || !strings.Contains(err.Error(), c.addr)) || said.Len() > 0 {
			t.Errorf("%+v: %v, and the log says %q", c, err, said.String())
		}
		err = CheckPassword(c.addr, c.cfg, true, log)
		if err != nil || (said.Len() == 0) != c.fine || !strings.Contains(said.String(), c.addr) && !c.fine {
			t.Errorf("%+v, allowed: %v, and the log says %q", c, err, said.String())
		}
	}
}
