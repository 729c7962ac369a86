package servers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// StartRedis starts Redis with its data under dir, and returns when it serves. Close ends it.
func StartRedis(ctx context.Context, dir string, opts ...Option) (*Cluster, error) {
	return startRedis(ctx, dir, configure(opts))
}

func startRedis(ctx context.Context, dir string, cfg config) (*Cluster, error) {
	path, err := Find("redis/redis-server")
	if err != nil {
		return nil, err
	}
	return start(ctx, &redis{path: path}, dir, cfg)
}

type redis struct {
	independent
	path string
}

func (*redis) name() string { return "Redis" }

func (*redis) url(m *Member) string {
	u := url.URL{Scheme: "redis", Host: m.Addr()}
	if p := m.cluster.cfg.password; p != "" {
		u.User = url.UserPassword("", p)
	}
	return u.String()
}

func (r *redis) command(m *Member) (*exec.Cmd, error) {
	cfg := m.cluster.cfg
	data := filepath.Join(m.dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	lines := []string{
		"bind 127.0.0.1",
		"port {port:client}",
		"dir " + strconv.Quote(data),
		"loglevel " + map[bool]string{true: "warning", false: "verbose"}[cfg.verbosity == "warn"],
		`save ""`,
		"enable-debug-command local",
		"repl-diskless-sync-delay 0",
	}
	if cfg.append != "" {
		lines = append(lines, "appendonly yes", "appendfsync "+cfg.append)
	}
	if cfg.password != "" {
		lines = append(lines, "requirepass "+strconv.Quote(cfg.password), "masterauth "+strconv.Quote(cfg.password))
	}
	if host, port, err := net.SplitHostPort(cfg.primary); err == nil {
		lines = append(lines, "replicaof "+host+" "+port)
	}
	file, err := m.writeConfig("redis.conf", slices.Concat(lines, cfg.lines, cfg.own[m.id-1]))
	return exec.Command(r.path, file), err
}

// probe reads INFO. A Redis that still loads its append-only file answers it, too, and says so.
func (r *redis) probe(ctx context.Context, m *Member) (health, error) {
	conn, err := m.dial(ctx)
	if err != nil {
		return health{}, err
	}
	defer conn.Close()
	var ask string
	if p := m.cluster.cfg.password; p != "" {
		ask = fmt.Sprintf("*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n", len(p), p)
	}
	if _, err := io.WriteString(conn, ask+"INFO\r\nQUIT\r\n"); err != nil {
		return health{}, err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return health{}, err
	}
	var h health
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "-") {
			return health{}, fmt.Errorf("INFO of %s: %s", m.Name(), line)
		}
		switch key, value, _ := strings.Cut(line, ":"); key {
		case "redis_version":
			h.version = value
		case "loading":
			h.serving = value == "0"
		case "role":
			h.leads = value == "master"
		}
	}
	return h, nil
}
