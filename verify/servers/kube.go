package servers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// KubeAdmin is the token of who may do anything at a cluster that [Kube] has started. KubeToken has others.
const KubeAdmin = "admin-token"

// KubeToken returns the token of a user of that name, who may do nothing until a RoleBinding says otherwise. The names are one,
// two and three.
func KubeToken(user string) string { return user + "-token" }

// StartKube starts etcd, and API servers of Kubernetes on it, and returns when they serve and have the namespace "default".
// There is nothing else: no kubelet, no controller, no scheduler. Close ends all of them.
func StartKube(ctx context.Context, dir string, opts ...Option) (*Cluster, error) {
	return startKube(ctx, dir, configure(opts))
}

func startKube(ctx context.Context, dir string, cfg config) (*Cluster, error) {
	path, err := Find("kube-apiserver")
	if err != nil {
		return nil, err
	}
	below := cfg
	below.members, below.flags, below.lines, below.tls = 1, nil, nil, false
	etcd, err := startEtcd(ctx, dir, below)
	if err != nil {
		return nil, err
	}
	cfg.tls = true
	c, err := start(ctx, &kube{path: path, etcd: etcd}, dir, cfg)
	if err != nil {
		etcd.Close()
	}
	return c, err
}

// Below returns the etcd of a cluster of Kubernetes.
func (c *Cluster) Below() *Cluster { return c.service.(*kube).etcd }

// KubeCA returns the file with the certificate of the authority that the API servers' are from.
func (c *Cluster) KubeCA() string { return c.certs.authority }

type kube struct {
	independent
	path string
	etcd *Cluster
}

func (*kube) name() string { return "Kubernetes" }

func (*kube) url(m *Member) string { return "https://" + m.Addr() }

func (k *kube) command(m *Member) (*exec.Cmd, error) {
	dir := m.cluster.shared()
	key, err := signingKey(filepath.Join(dir, "accounts.pem"))
	if err != nil {
		return nil, err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	list := KubeAdmin + ",admin,admin,system:masters\n"
	for _, user := range []string{"one", "two", "three"} {
		list += KubeToken(user) + "," + user + "," + user + "\n"
	}
	if err := os.WriteFile(tokens, []byte(list), 0o600); err != nil {
		return nil, err
	}
	certs := m.cluster.certs
	flags, err := m.cluster.expand(m, append([]string{
		"--etcd-servers=http://" + k.etcd.Addrs()[0],
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port={port:client}",
		"--tls-cert-file=" + certs.server, "--tls-private-key-file=" + certs.server, "--client-ca-file=" + certs.authority,
		"--cert-dir={dir}",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--token-auth-file=" + tokens,
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount",
		"--endpoint-reconciler-type=none",
	}, m.cluster.cfg.flags...))
	return exec.Command(k.path, flags...), err
}

// shared returns a folder for what all members read.
func (c *Cluster) shared() string { return filepath.Dir(c.certs.authority) }

func signingKey(file string) (string, error) {
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600)
}

// cleanUp ends etcd with the last API server.
func (k *kube) cleanUp(m *Member) {
	for _, other := range m.cluster.members {
		if p := other.process(); p != nil && p.Alive() {
			return
		}
	}
	k.etcd.Close()
}

func (k *kube) probe(ctx context.Context, m *Member) (health, error) {
	if _, err := k.get(ctx, m, "/readyz"); err != nil {
		return health{}, err
	}
	if _, err := k.get(ctx, m, "/api/v1/namespaces/default"); err != nil {
		return health{}, err
	}
	// What is not built in Kubernetes' own way does not know its version.
	return health{serving: true, leads: true, version: versions["kube-apiserver"]}, nil
}

// get keeps no connection, which a leak check in the caller's test would find.
func (k *kube) get(ctx context.Context, m *Member, path string) ([]byte, error) {
	return m.KubeDo(ctx, http.MethodGet, path, "")
}

// KubeDo sends a request to an API server, as who may do anything.
func (m *Member) KubeDo(ctx context.Context, method, path, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.URL()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+KubeAdmin)
	switch {
	case strings.HasPrefix(body, "{"):
		req.Header.Set("Content-Type", "application/json")
	case body != "":
		req.Header.Set("Content-Type", "application/yaml")
	}
	cfg := m.cluster.TLSConfig()
	cfg.Certificates = nil
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: cfg, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s at %s: %s: %s", method, path, m.Name(), resp.Status, text)
	}
	return text, err
}
