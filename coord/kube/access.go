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
			return "", pkg.Invalid("this is no pod, since KUBERNETES_SERVICE_HOST is not set: name an API server with WithServer or WithKubeconfig")
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

// gate sends requests with the token and the certificates that the files have now.
type gate struct {
	access
	stop   context.CancelFunc
	closed context.Context

	mu      sync.Mutex
	looked  time.Time
	token   string
	made    [3][]byte // authorities, certificate and key that through was made with
	through *http.Transport
}

func newGate(a access) (*gate, error) {
	g := &gate{access: a}
	g.closed, g.stop = context.WithCancel(context.Background())
	g.mu.Lock()
	defer g.mu.Unlock()
	return g, g.load()
}

// close closes the connections that nobody uses, and those that come yet.
func (g *gate) close() {
	g.stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.through.CloseIdleConnections()
}

// RoundTrip sends a request. If it is refused since the server knows another token or certificate by now, nothing was done, and
// it is sent again with what the files say, if that is something else.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	through, token := g.now()
	resp, err := send(through, token, req)
	if !(err != nil && storekit.IsUntrusted(err) || err == nil && resp.StatusCode == http.StatusUnauthorized) || !g.changed(through, token) {
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
	through, token = g.now()
	return send(through, token, req)
}

func send(through *http.Transport, token string, req *http.Request) (*http.Response, error) {
	if token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return through.RoundTrip(req)
}

func (g *gate) now() (*http.Transport, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.looked) > lookAgain {
		_ = g.load() // a file that cannot be read is about to be replaced
	}
	return g.through, g.token
}

// changed reads the files again, and reports whether there is something else in them.
func (g *gate) changed(through *http.Transport, token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.load() == nil && (g.through != through || g.token != token)
}

// load reads the files. The caller has mu.
func (g *gate) load() error {
	g.looked = time.Now()
	token, files := g.access.token, [3][]byte{g.ca, g.cert, g.key}
	for i, path := range []string{g.caFile, g.certFile, g.keyFile} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return pkg.Invalid("%w", err)
		}
		files[i] = text
	}
	if g.tokenFile != "" {
		text, err := os.ReadFile(g.tokenFile)
		if err != nil {
			return pkg.Invalid("the token: %w", err)
		}
		if token = strings.TrimSpace(string(text)); token == "" || strings.ContainsAny(token, " \r\n\t") {
			return pkg.Invalid("the token in %s: it must be one word", g.tokenFile)
		}
	}
	if g.through == nil || !slices.EqualFunc(files[:], g.made[:], bytes.Equal) {
		cfg, err := tlsConfig(files, g.serverName)
		if err != nil {
			return err
		}
		if g.through != nil {
			g.through.CloseIdleConnections()
		}
		g.through, g.made = newTransport(cfg, g.closed), files
	}
	g.token = token
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
