package servers

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// StartPostgres starts PostgreSQL with its data under dir, and returns when it serves. Close ends it.
func StartPostgres(ctx context.Context, dir string, opts ...Option) (*Cluster, error) {
	return startPostgres(ctx, dir, configure(opts))
}

func startPostgres(ctx context.Context, dir string, cfg config) (*Cluster, error) {
	programs, err := Find("postgres")
	if err != nil {
		return nil, err
	}
	return start(ctx, &postgres{programs: programs}, dir, cfg)
}

type postgres struct {
	independent
	programs string
}

func (*postgres) name() string { return "PostgreSQL" }

func (*postgres) url(m *Member) string { return postgresURL(m.Addr(), m.cluster.cfg.password) }

func postgresURL(addr, password string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: addr, Path: "postgres", RawQuery: "sslmode=disable"}
	if password != "" {
		u.User = url.UserPassword("postgres", password)
	}
	return u.String()
}

// goodOrder is a fast shutdown. On SIGTERM it would wait for its clients to go.
func (*postgres) goodOrder() syscall.Signal { return syscall.SIGINT }

func (p *postgres) command(m *Member) (*exec.Cmd, error) {
	cfg := m.cluster.cfg
	if err := p.prepare(m); err != nil {
		return nil, err
	}
	lines := []string{
		"listen_addresses = '127.0.0.1'",
		"port = {port:client}",
		"unix_socket_directories = ''",
		"hba_file = " + quote(filepath.Join(m.dir, "pg_hba.conf")),
		"fsync = " + onOff(cfg.fsync),
		"full_page_writes = " + onOff(cfg.fsync),
		"log_min_messages = " + map[bool]string{true: "warning", false: "debug1"}[cfg.verbosity == "warn"],
		"log_line_prefix = '%m '",
		"dynamic_shared_memory_type = mmap", // in the data folder, and gone with it
		"wal_keep_size = 128MB",             // for a replica, which begins with the first record
		"max_wal_size = 256MB",
	}
	if host, port, err := net.SplitHostPort(cfg.primary); err == nil {
		lines = append(lines, "primary_conninfo = "+quote(fmt.Sprintf("host=%s port=%s user=postgres password=%s",
			host, port, quote(cfg.password))))
	}
	file, err := m.writeConfig("postgresql.conf", slices.Concat(lines, cfg.lines, cfg.own[m.id-1]))
	if err != nil {
		return nil, err
	}
	method := "trust"
	if cfg.password != "" {
		method = "scram-sha-256"
	}
	access := fmt.Sprintf("host all,replication all 127.0.0.1/32 %s\n", method)
	if err := os.WriteFile(filepath.Join(m.dir, "pg_hba.conf"), []byte(access), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(p.programs, "postgres"), "-D", filepath.Join(m.dir, "data"), "-c", "config_file="+file)
	notAsRoot(cmd)
	return cmd, nil
}

// cleanUp removes the few bytes of System V shared memory by which PostgreSQL notices that it runs twice. A killed server
// leaves them to the next one on the same data, and the system has room for 4,096 such segments in all.
func (*postgres) cleanUp(m *Member) {
	text, _ := os.ReadFile(filepath.Join(m.dir, "data", "postmaster.pid"))
	if lines := strings.Split(string(text), "\n"); len(lines) > 6 {
		if key := strings.Fields(lines[6]); len(key) == 2 {
			_ = exec.Command("ipcrm", "-m", key[1]).Run()
		}
	}
}

// prepare makes the data folder, if there is none, from a copy of one that was made before. So all have the same
// identity, and a replica needs no backup of its primary.
func (p *postgres) prepare(m *Member) error {
	cfg := m.cluster.cfg
	data := filepath.Join(m.dir, "data")
	if _, err := os.Stat(data); err == nil {
		return nil
	}
	args := []string{"--username=postgres", "--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync", "--no-instructions"}
	if cfg.password != "" {
		args = append(args, "--pwfile=/dev/stdin")
	}
	filled, err := template("postgres", filepath.Join(p.programs, "usr/lib/postgresql/15/bin/postgres"),
		fmt.Sprint(args, cfg.password), func(dir string) error {
			cmd := exec.Command(filepath.Join(p.programs, "initdb"), append(args, "--pgdata="+dir)...)
			cmd.Stdin = strings.NewReader(cfg.password + "\n")
			notAsRoot(cmd)
			return runToEnd(cmd)
		})
	if err != nil {
		return err
	}
	if err := copyTemplate(data, filled); err != nil || cfg.primary == "" {
		return err
	}
	return os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o600)
}

// quote writes a value as PostgreSQL's and its clients' configuration has it.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func onOff(on bool) string { return map[bool]string{true: "on", false: "off"}[on] }

func (*postgres) probe(ctx context.Context, m *Member) (health, error) {
	return probePostgres(ctx, m)
}

// probePostgres says who it is, and listens until the server is ready for a query or asks for a password: one that is
// still starting up refuses before that.
func probePostgres(ctx context.Context, m *Member) (health, error) {
	conn, err := m.dial(ctx)
	if err != nil {
		return health{}, err
	}
	defer conn.Close()
	hello := []byte("\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00")
	hello = append(binary.BigEndian.AppendUint32(nil, uint32(len(hello)+4)), hello...)
	if _, err := conn.Write(hello); err != nil {
		return health{}, err
	}
	// A server that asks for a password says no more before it has it.
	h := health{leads: m.cluster.cfg.primary == ""}
	for {
		kind, body, err := postgresMessage(conn)
		if err != nil {
			return health{}, err
		}
		switch kind {
		case 'E':
			return health{}, fmt.Errorf("%s refuses: %s", m.Name(), bytes.ReplaceAll(body, []byte{0}, []byte(" ")))
		case 'R':
			if binary.BigEndian.Uint32(body) != 0 {
				h.serving = true
				h.version = dataVersion(m)
				return h, nil
			}
		case 'S':
			name, value, _ := strings.Cut(strings.TrimSuffix(string(body), "\x00"), "\x00")
			switch name {
			case "server_version":
				h.version, _, _ = strings.Cut(value, " ")
			case "in_hot_standby":
				h.leads = value == "off"
			}
		case 'Z':
			h.serving = true
			_, _ = conn.Write([]byte("X\x00\x00\x00\x04")) // goodbye
			return h, nil
		}
	}
}

// postgresMessage reads a message of the server: a letter, the length, and the body.
func postgresMessage(r io.Reader) (kind byte, body []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 8 && head[0] == 'R' || size < 4 || size > 1<<20 {
		return 0, nil, fmt.Errorf("a message %q of %d bytes is not PostgreSQL's", head[0], size)
	}
	body = make([]byte, size-4)
	_, err = io.ReadFull(r, body)
	return head[0], body, err
}

func dataVersion(m *Member) string {
	text, err := os.ReadFile(filepath.Join(m.dir, "data", "PG_VERSION"))
	if err != nil {
		return "behind a password"
	}
	return strings.TrimSpace(string(text))
}
