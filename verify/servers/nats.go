package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// StartNATS starts NATS with JetStream, its data under dir, and returns when it serves. Its monitor is at the port "monitor"; see
// [Member.Port]. Close ends it.
func StartNATS(ctx context.Context, dir string, opts ...Option) (*Cluster, error) {
	return startNATS(ctx, dir, configure(opts))
}

func startNATS(ctx context.Context, dir string, cfg config) (*Cluster, error) {
	path, err := Find("nats-server")
	if err != nil {
		return nil, err
	}
	return start(ctx, &nats{path: path}, dir, cfg)
}

type nats struct {
	independent
	path string
}

func (*nats) name() string { return "NATS" }

func (*nats) url(m *Member) string {
	u := url.URL{Scheme: "nats", Host: m.Addr()}
	if p := m.cluster.cfg.password; p != "" {
		u.User = url.UserPassword("turnwise", p)
	}
	return u.String()
}

func (n *nats) command(m *Member) (*exec.Cmd, error) {
	cfg := m.cluster.cfg
	data := filepath.Join(m.dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	sync := ""
	if cfg.fsync {
		sync = ", sync_interval: always"
	}
	lines := []string{
		"server_name: {name}",
		"listen: 127.0.0.1:{port:client}",
		"http: 127.0.0.1:{port:monitor}",
		"jetstream { store_dir: " + strconv.Quote(data) + sync + " }",
	}
	if cfg.password != "" {
		lines = append(lines, "authorization { user: turnwise, password: "+strconv.Quote(cfg.password)+" }")
	}
	if cfg.tls {
		certs := m.cluster.certs
		lines = append(lines, "tls { cert_file: "+strconv.Quote(certs.server)+", key_file: "+strconv.Quote(certs.server)+", handshake_first: auto }") // who waits is told in the clear
	}
	file, err := m.writeConfig("nats.conf", slices.Concat(lines, cfg.lines, cfg.own[m.id-1]))
	return exec.Command(n.path, "-c", file), err
}

// probe reads what the server says by itself to whoever connects. It listens when its streams are there.
func (n *nats) probe(ctx context.Context, m *Member) (health, error) {
	conn, err := m.dial(ctx)
	if err != nil {
		return health{}, err
	}
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return health{}, err
	}
	text, ok := strings.CutPrefix(line, "INFO ")
	var says struct {
		Version   string `json:"version"`
		JetStream bool   `json:"jetstream"`
	}
	if err := json.Unmarshal([]byte(text), &says); err != nil || !ok {
		return health{}, fmt.Errorf("%s says %.100q", m.Name(), line)
	}
	return health{serving: says.JetStream || !m.cluster.cfg.jetStream(), leads: true, version: says.Version}, nil
}

// jetStream reports whether a configuration is of a server with JetStream.
func (c config) jetStream() bool { return !slices.Contains(c.lines, "jetstream: disabled") }
