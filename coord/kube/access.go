package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// access is where the API server is, and by what it knows us.
type access struct {
	server              string
	tokenFile, caFile   string
	certFile, keyFile   string
	kubeconfig, context string
	toJSON              func(yaml []byte) (json []byte, err error)

	// from a kubeconfig
	serverName    string
	token         string
	ca, cert, key []byte
}

// What is mounted into a pod.
var mounted = "/var/run/secrets/kubernetes.io/serviceaccount/"

// settle fills in what the pod or a kubeconfig says, and returns the namespace.
func (a *access) settle(namespace string) (string, error) {
	switch {
	case a.kubeconfig != "":
		own, err := a.read()
		if err != nil {
			return "", err
		}
		if namespace == "" {
			namespace = own
		}
	case a.server == "":
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return "", pkg.Invalid("this is no pod, since KUBERNETES_SERVICE_HOST is not set: name an API server with WithServer or WithKubeconfig (in a URL: server= or kubeconfig=)")
		}
		a.server = "https://" + net.JoinHostPort(host, port)
		if a.tokenFile == "" && a.certFile == "" {
			a.tokenFile = mounted + "token"
		}
		if a.caFile == "" {
			a.caFile = mounted + "ca.crt"
		}
		if namespace == "" {
			text, err := os.ReadFile(mounted + "namespace")
			if err != nil {
				return "", pkg.Invalid("the namespace of this pod: %w", err)
			}
			namespace = strings.TrimSpace(string(text))
		}
	}
	if namespace == "" {
		return "", pkg.Invalid("it names no namespace")
	}
	return namespace, a.checkServer()
}

// checkServer refuses to send a token where anybody on the way can read it.
func (a *access) checkServer() error {
	u, err := url.Parse(a.server)
	if err != nil || u.Scheme != "http" || a.token == "" && a.tokenFile == "" {
		return nil // what is no URL is refused later
	}
	if host := u.Hostname(); !driverkit.OnThisMachine(net.JoinHostPort(host, "80")) {
		return pkg.Invalid("a token would go to %s in clear: write https://", u.Host)
	}
	return nil
}

// lookAgain is how long files are believed to be as they were. Kubernetes changes a mounted token when a fifth of its time is
// left.
const lookAgain = time.Minute

// sender sends requests with the token and the certificates that the files have now.
type sender struct {
	access
	stop   context.CancelFunc
	closed context.Context

	mu      sync.Mutex
	looked  time.Time
	token   string
	made    [3][]byte // authorities, certificate and key that through was made with
	through *http.Transport
}

func newSender(a access) (*sender, error) {
	s := &sender{access: a}
	s.closed, s.stop = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.load()
}

// close closes the connections that nobody uses, and those that come yet.
func (s *sender) close() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.through.CloseIdleConnections()
}

// RoundTrip sends a request. If it is refused since the server knows another token or certificate by now, nothing was done, and
// it is sent again with what the files say, if that is something else.
func (s *sender) RoundTrip(req *http.Request) (*http.Response, error) {
	through, token := s.now()
	resp, err := send(through, token, req)
	if !(err != nil && storekit.IsUntrusted(err) || err == nil && resp.StatusCode == http.StatusUnauthorized) || !s.changed(through, token) {
		return resp, err
	}
	if err == nil {
		resp.Body.Close()
	}
	if req.GetBody != nil {
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	through, token = s.now()
	return send(through, token, req)
}

func send(through *http.Transport, token string, req *http.Request) (*http.Response, error) {
	if token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return through.RoundTrip(req)
}

func (s *sender) now() (*http.Transport, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.looked) > lookAgain {
		_ = s.load() // a file that cannot be read is about to be replaced
	}
	return s.through, s.token
}

// changed reads the files again, and reports whether there is something else in them.
func (s *sender) changed(through *http.Transport, token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load() == nil && (s.through != through || s.token != token)
}

// load reads the files. The caller has mu.
func (s *sender) load() error {
	s.looked = time.Now()
	token, files := s.access.token, [3][]byte{s.ca, s.cert, s.key}
	for i, path := range []string{s.caFile, s.certFile, s.keyFile} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return pkg.Invalid("%w", err)
		}
		files[i] = text
	}
	if s.tokenFile != "" {
		text, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return pkg.Invalid("the token: %w", err)
		}
		if token = strings.TrimSpace(string(text)); token == "" || strings.ContainsAny(token, " \r\n\t") {
			return pkg.Invalid("the token in %s: it must be one word", s.tokenFile)
		}
	}
	if s.through == nil || !slices.EqualFunc(files[:], s.made[:], bytes.Equal) {
		cfg, err := tlsConfig(files, s.serverName)
		if err != nil {
			return err
		}
		if s.through != nil {
			s.through.CloseIdleConnections()
		}
		s.through, s.made = newTransport(cfg, s.closed), files
	}
	s.token = token
	return nil
}

func tlsConfig(files [3][]byte, serverName string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if files[0] != nil {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(files[0]) {
			return nil, pkg.Invalid("the certificate authority: there is no certificate (PEM) in it")
		}
	}
	if files[1] != nil || files[2] != nil {
		pair, err := tls.X509KeyPair(files[1], files[2])
		if err != nil {
			return nil, pkg.Invalid("the client's certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

var errHungUp = errors.New("the connection came when the store was closed")

// newTransport returns one that notices a dead connection in seconds: all requests share one, and without pings they would wait
// for as long as the kernel does. A connection that was dialled for a request that was given up is closed soon.
func newTransport(cfg *tls.Config, closed context.Context) *http.Transport {
	dialer := &net.Dialer{Timeout: 3 * time.Second, KeepAlive: 5 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err == nil && closed.Err() != nil {
				c.Close()
				return nil, errHungUp
			}
			return c, err
		},
		TLSClientConfig:     cfg,
		TLSHandshakeTimeout: 3 * time.Second,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 3 * time.Second, PingTimeout: 2 * time.Second},
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     15 * time.Second,
	}
}
