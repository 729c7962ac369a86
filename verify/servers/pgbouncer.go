package servers

import (
	"context"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// PgBouncer starts a pooler in front of a PostgreSQL for the test, and ends it with the test. It hands out a connection
// for a transaction at a time, unless [Config] says otherwise, and asks for no password.
func PgBouncer(t testing.TB, behind *Member, opts ...Option) *Cluster {
	t.Helper()
	cfg := configure(opts)
	cfg.primary, cfg.password = behind.Addr(), behind.cluster.cfg.password
	return forTest(t, "PgBouncer", startPgBouncer, cfg)
}

func startPgBouncer(ctx context.Context, dir string, cfg config) (*Cluster, error) {
	path, err := Find("pgbouncer/pgbouncer")
	if err != nil {
		return nil, err
	}
	return start(ctx, &pgBouncer{path: path}, dir, cfg)
}

type pgBouncer struct {
	independent
	path string
}

func (*pgBouncer) name() string { return "PgBouncer" }

func (*pgBouncer) url(m *Member) string { return postgresURL(m.Addr(), "") }

func (b *pgBouncer) command(m *Member) (*exec.Cmd, error) {
	cfg := m.cluster.cfg
	host, port, err := net.SplitHostPort(cfg.primary)
	if err != nil {
		return nil, err
	}
	server := "host=" + host + " port=" + port + " user=postgres"
	if cfg.password != "" {
		server += " password=" + "'" + strings.ReplaceAll(cfg.password, "'", "''") + "'"
	}
	lines := []string{
		"[databases]",
		"* = " + server,
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		"listen_port = {port:client}",
		"unix_socket_dir =",
		"auth_type = any",
		"pool_mode = transaction",
		"server_login_retry = 1",
	}
	file, err := m.writeConfig("pgbouncer.ini", slices.Concat(lines, cfg.lines, cfg.own[m.id-1]))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(b.path, file)
	notAsRoot(cmd)
	return cmd, nil
}

// probe also reaches the PostgreSQL behind.
func (*pgBouncer) probe(ctx context.Context, m *Member) (health, error) {
	h, err := probePostgres(ctx, m)
	h.leads, h.version = true, "before PostgreSQL "+h.version
	return h, err
}
