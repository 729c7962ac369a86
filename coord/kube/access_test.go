package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// guarded lets only those in who have the token that stands there now.
func guarded(t *testing.T, f *fake) (server *httptest.Server, token *atomic.Value) {
	t.Helper()
	token = &atomic.Value{}
	token.Store("first")
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token.Load().(string) {
			refuse(w, 401, "Unauthorized", "Unauthorized", nil)
			return
		}
		f.serve(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server, token
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func selfSigned(t *testing.T) (pair tls.Certificate, text string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func certificate(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// pod makes this process look like a pod.
func pod(t *testing.T, s *httptest.Server, token string) (dir string) {
	t.Helper()
	dir = t.TempDir() + "/"
	write(t, dir+"token", token)
	write(t, dir+"ca.crt", certificate(s))
	write(t, dir+"namespace", "default")
	was := mounted
	mounted = dir
	t.Cleanup(func() { mounted = was })
	u, _ := url.Parse(s.URL)
	host, port, _ := net.SplitHostPort(u.Host)
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	return dir
}

func TestInAPodEverythingIsMounted(t *testing.T) {
	server, token := guarded(t, newFake(t))
	dir := pod(t, server, "first")
	s, err := Open(within(t, 20*time.Second), "", WithLogger(logger(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	it := put(t, s, register.Item{Key: "k"}, "one")

	// The token is replaced, and the old one is not taken any more.
	write(t, dir+"token", "second")
	token.Store("second")
	put(t, s, it, "two")
	if got := read(t, s, "k"); string(got.Value) != "two" {
		t.Errorf("it reads %q", got.Value)
	}
}

// The server gets a certificate of another authority.
func TestAnAuthorityThatIsReplacedIsReadAgain(t *testing.T) {
	f := newFake(t)
	dir := t.TempDir()
	authority := func() (tlsConfig *tls.Config, pem string) {
		pair, text := selfSigned(t)
		return &tls.Config{Certificates: []tls.Certificate{pair}}, text
	}
	var now atomic.Pointer[tls.Config]
	cfg, text := authority()
	now.Store(cfg)
	server := httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return now.Load(), nil }}
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	ca := filepath.Join(dir, "ca.pem")
	write(t, ca, text)
	s := opened(t, WithServer(server.URL), WithCAFile(ca))
	it := put(t, s, register.Item{Key: "k"}, "one")

	cfg, text = authority()
	now.Store(cfg)
	write(t, ca, text)
	server.CloseClientConnections()
	storecheck.Eventually(t, "it is read over a new connection", func() bool {
		got, err := s.Read(within(t, 5*time.Second), it.Key)
		return err == nil && string(got.Value) == "one"
	})
}

func TestAKubeconfig(t *testing.T) {
	server, _ := guarded(t, newFake(t))
	config := map[string]any{
		"current-context": "other",
		"contexts": []any{
			map[string]any{"name": "other", "context": map[string]any{"cluster": "nowhere", "user": "nobody"}},
			map[string]any{"name": "here", "context": map[string]any{"cluster": "c", "user": "u"}},
			map[string]any{"name": "plugin", "context": map[string]any{"cluster": "c", "user": "exec"}},
			map[string]any{"name": "acting", "context": map[string]any{"cluster": "c", "user": "as"}},
			map[string]any{"name": "blind", "context": map[string]any{"cluster": "insecure", "user": "u"}},
		},
		"clusters": []any{
			map[string]any{"name": "c", "cluster": map[string]any{"server": server.URL, "certificate-authority-data": []byte(certificate(server))}},
			map[string]any{"name": "insecure", "cluster": map[string]any{"server": server.URL, "insecure-skip-tls-verify": true}},
		},
		"users": []any{
			map[string]any{"name": "u", "user": map[string]any{"token": "first"}},
			map[string]any{"name": "as", "user": map[string]any{"token": "first", "as": "somebody", "as-groups": []any{"few"}}},
			map[string]any{"name": "exec", "user": map[string]any{"exec": map[string]any{"command": "aws"}}},
		},
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, string(text))
	s, err := Open(within(t, 20*time.Second), "", WithKubeconfig(path, "here"))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	write(t, path, "in: another notation\n")
	inYAML := func(yaml []byte) ([]byte, error) {
		if string(yaml) != "in: another notation\n" {
			t.Errorf("it is given %q", yaml)
		}
		return text, nil
	}
	if s, err = Open(within(t, 20*time.Second), "", WithKubeconfig(path, "here"), WithYAML(inYAML)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err = Open(within(t, 20*time.Second), "", WithKubeconfig(path, "here"), WithYAML(func([]byte) ([]byte, error) { return nil, errors.New("line 1") }))
	storecheck.Refused(t, err, coord.ErrInvalid, "line 1")
	write(t, path, string(text))
	for context, says := range map[string]string{"": "no cluster", "plugin": "kubectl proxy", "acting": "acts as another", "blind": "insecure-skip-tls-verify", "none": "no context"} {
		if _, err := Open(within(t, 20*time.Second), "", WithKubeconfig(path, context)); err == nil {
			t.Errorf("%q: it opens", context)
		} else {
			storecheck.Refused(t, err, coord.ErrInvalid, says)
		}
	}
}
