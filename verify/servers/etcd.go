package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// StartEtcd starts etcd with its data under dir, and returns when it serves. Close ends it.
func StartEtcd(ctx context.Context, dir string, opts ...Option) (*Cluster, error) {
	return startEtcd(ctx, dir, configure(opts))
}

func startEtcd(ctx context.Context, dir string, cfg config) (*Cluster, error) {
	path, err := findEtcd(cfg.old)
	if err != nil {
		return nil, err
	}
	return start(ctx, &etcd{path}, dir, cfg)
}

type etcd struct{ path string }

func (*etcd) name() string { return "etcd" }

func (*etcd) url(m *Member) string { return m.Addr() }

func (*etcd) goodOrder() syscall.Signal { return syscall.SIGTERM }

func (*etcd) clientPort(config) string { return "client" }

func (e *etcd) command(m *Member) (*exec.Cmd, error) {
	cfg := m.cluster.cfg
	var cluster []string
	for _, other := range m.cluster.members {
		peer, err := m.cluster.peerURL(other)
		if err != nil {
			return nil, err
		}
		cluster = append(cluster, other.Name()+"="+peer)
	}
	own, err := m.cluster.peerURL(m)
	if err != nil {
		return nil, err
	}
	flags := []string{
		"--name={name}",
		"--data-dir=" + filepath.Join(m.dir, "data"),
		"--listen-client-urls=http://127.0.0.1:{port:client}",
		"--advertise-client-urls=http://127.0.0.1:{port:client}",
		"--listen-peer-urls=http://127.0.0.1:{port:peer}",
		"--initial-advertise-peer-urls=" + own,
		// Health and metrics have a port of their own, so that they can be read when the clients' port is all TLS.
		"--listen-metrics-urls=http://127.0.0.1:{port:metrics}",
		"--initial-cluster=" + strings.Join(cluster, ","),
		"--initial-cluster-token=turnwise-" + strconv.Itoa(m.cluster.members[0].Port("peer")),
		"--heartbeat-interval=" + strconv.FormatInt(cfg.election.Milliseconds()/10, 10),
		"--election-timeout=" + strconv.FormatInt(cfg.election.Milliseconds(), 10),
		"--logger=zap", "--log-level=" + cfg.verbosity,
	}
	if cfg.tls {
		certs := m.cluster.certs
		flags = append(flags,
			"--listen-client-urls=https://127.0.0.1:{port:client}",
			"--advertise-client-urls=https://127.0.0.1:{port:client}",
			"--cert-file="+certs.server, "--key-file="+certs.server,
			"--trusted-ca-file="+certs.authority, "--client-cert-auth",
		)
	}
	if !cfg.fsync && !cfg.old { // 3.4 always waits for the disk
		flags = append(flags, "--unsafe-no-fsync")
	}
	if flags, err = m.cluster.expand(m, append(flags, cfg.flags...)); err != nil {
		return nil, err
	}
	cmd := exec.Command(e.path, flags...)
	if cfg.links && len(m.cluster.members) > 1 {
		forwarder, err := m.cluster.forwarder(m)
		if err != nil {
			return nil, err
		}
		cmd.Env = append(environment(), "HTTP_PROXY="+forwarder)
	}
	return cmd, nil
}

// next waits until the member answers, even if only with "no leader". A new member asks the others whether they know it, and
// loses a second if one of them already listens but does not answer yet.
func (e *etcd) next(ctx context.Context, m *Member) error {
	for p := m.process(); p.Alive(); { // Ready says why it is not alive
		if _, err := m.fetchMetrics(ctx, "/health"); err == nil {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%s does not answer: %w\n%s", m.Name(), err, m.cluster.logTails())
		}
	}
	return nil
}

// probe asks for /health, which etcd answers only after a read that a majority agreed to.
func (e *etcd) probe(ctx context.Context, m *Member) (health, error) {
	body, err := m.fetchMetrics(ctx, "/health")
	if err != nil {
		return health{}, err
	}
	var said struct{ Health string }
	if err := json.Unmarshal([]byte(body), &said); err != nil || said.Health != "true" {
		return health{}, fmt.Errorf("health of %s: %s", m.Name(), body)
	}
	numbers, err := m.Metrics(ctx)
	if err != nil {
		return health{}, err
	}
	h := health{serving: true, leads: numbers.Sum("etcd_server_is_leader") == 1}
	for series := range numbers {
		if _, after, ok := strings.Cut(series, `etcd_server_version{server_version="`); ok {
			h.version = strings.TrimSuffix(after, `"}`)
		}
	}
	return h, nil
}

// Metrics are values by series, as Prometheus writes them: etcd_debugging_mvcc_watcher_total, or
// grpc_server_handled_total{grpc_code="OK",grpc_method="Txn",…}.
type Metrics map[string]float64

// Sum adds up all series of the name whose labels contain every one of those given, such as `grpc_method="Txn"`.
func (all Metrics) Sum(name string, labels ...string) float64 {
	var sum float64
series:
	for series, value := range all {
		base, has, _ := strings.Cut(series, "{")
		if base != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(has, label) {
				continue series
			}
		}
		sum += value
	}
	return sum
}

// Calls returns how many gRPC calls of that method ("Txn", "Range", "LeaseKeepAlive", "Watch", …) the server has
// finished.
func (all Metrics) Calls(method string) float64 {
	return all.Sum("grpc_server_handled_total", `grpc_method="`+method+`"`)
}

// Metrics returns etcd's own metrics.
func (m *Member) Metrics(ctx context.Context) (Metrics, error) {
	body, err := m.fetchMetrics(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	numbers := Metrics{}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		line := lines.Text()
		space := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || space < 0 {
			continue
		}
		if value, err := strconv.ParseFloat(line[space+1:], 64); err == nil {
			numbers[line[:space]] = value
		}
	}
	return numbers, nil
}

// fetchMetrics keeps no connection, which a leak check in the caller's test would find.
func (m *Member) fetchMetrics(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://127.0.0.1:%d%s", m.Port("metrics"), path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
