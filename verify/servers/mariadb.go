package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// StartMariaDB starts MariaDB with its data under dir, and returns when it serves. Close ends it. It is MySQL if that is
// what stands in MariaDB's place among the servers.
func StartMariaDB(ctx context.Context, dir string, opts ...Option) (*Cluster, error) {
	return startMariaDB(ctx, dir, configure(opts))
}

func startMariaDB(ctx context.Context, dir string, cfg config) (*Cluster, error) {
	programs, err := Find("mariadb")
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(programs, "mysqld"))
	return start(ctx, &mariaDB{programs: programs, mysql: err == nil}, dir, cfg)
}

type mariaDB struct {
	independent
	programs string
	mysql    bool
}

func (d *mariaDB) name() string {
	if d.mysql {
		return "MySQL"
	}
	return "MariaDB"
}

func (*mariaDB) url(m *Member) string {
	u := url.URL{Scheme: "mysql", User: url.User("root"), Host: m.Addr(), Path: "turnwise"}
	if p := m.cluster.cfg.password; p != "" {
		u.User = url.UserPassword("root", p)
	}
	return u.String()
}

func (d *mariaDB) command(m *Member) (*exec.Cmd, error) {
	cfg := m.cluster.cfg
	base := filepath.Join(d.programs, "usr")
	data := filepath.Join(m.dir, "data")
	server, identified := "mariadbd", "SET PASSWORD FOR root@'127.0.0.1' = PASSWORD('%s');"
	if d.mysql {
		server, identified = "mysqld", "ALTER USER root@'127.0.0.1' IDENTIFIED BY '%s';"
	}
	filled, err := template(strings.ToLower(d.name()), filepath.Join(base, "sbin", server), "1", func(dir string) error {
		args := append([]string{"--no-defaults", "--basedir=" + base}, asRoot()...)
		if d.mysql {
			args = append(args, "--datadir="+dir, "--initialize-insecure", "--innodb-redo-log-capacity=16M")
			return runToEnd(exec.Command(filepath.Join(d.programs, server), args...))
		}
		plain, remove, err := plainName(dir)
		if err != nil {
			return err
		}
		defer remove()
		args = append(args, "--datadir="+plain,
			"--innodb-log-file-size=16M", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
		return runToEnd(exec.Command(filepath.Join(d.programs, "mariadb-install-db"), args...))
	})
	if err != nil {
		return nil, err
	}
	if err := copyTemplate(data, filled); err != nil {
		return nil, err
	}
	password := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(cfg.password)
	welcome, err := m.writeConfig("welcome.sql", []string{
		"CREATE DATABASE IF NOT EXISTS turnwise;",
		"CREATE USER IF NOT EXISTS root@'127.0.0.1';",
		fmt.Sprintf(identified, password),
		"GRANT ALL PRIVILEGES ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;",
	})
	if err != nil {
		return nil, err
	}
	lines := []string{
		"[" + server + "]",
		"basedir=" + base,
		"datadir=" + data,
		"tmpdir=" + m.dir,
		"init-file=" + welcome,
		"bind-address=127.0.0.1",
		"port={port:client}",
		"socket=sock", // in the data folder: a path may be too long for a socket's name
		"pid-file=pid",
		"skip-name-resolve",
		"innodb_buffer_pool_size=32M",
		"innodb_use_native_aio=0",
	}
	quiet := cfg.verbosity == "warn"
	if d.mysql {
		lines = append(lines, "innodb_redo_log_capacity=16M", "mysqlx=0", "secure_file_priv=NULL", "log_error_verbosity="+map[bool]string{true: "2", false: "3"}[quiet])
	} else {
		lines = append(lines, "innodb_log_file_size=16M", "log_warnings="+map[bool]string{true: "1", false: "9"}[quiet])
	}
	if !cfg.fsync {
		lines = append(lines, "innodb_flush_log_at_trx_commit=2", "innodb_flush_method=nosync")
	}
	file, err := m.writeConfig("my.cnf", slices.Concat(lines, cfg.lines, cfg.own[m.id-1]))
	if err != nil {
		return nil, err
	}
	return exec.Command(filepath.Join(d.programs, server), append([]string{"--defaults-file=" + file}, asRoot()...)...), nil
}

// plainName makes a folder, and another name for it: mariadb-install-db makes several words of a path with blanks.
func plainName(dir string) (plain string, remove func(), err error) {
	parent, err := os.MkdirTemp("/tmp", "turnwise-mariadb-")
	if err != nil {
		return "", nil, err
	}
	plain = filepath.Join(parent, "data")
	err = errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(dir, plain))
	return plain, func() { _ = os.RemoveAll(parent) }, err
}

// asRoot are the flags that MariaDB wants to see before it runs as root.
func asRoot() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"--user=root"}
}

// probe reads the greeting, which comes once the server takes connections and welcome.sql is through.
func (*mariaDB) probe(ctx context.Context, m *Member) (health, error) {
	conn, err := m.dial(ctx)
	if err != nil {
		return health{}, err
	}
	defer conn.Close()
	head := make([]byte, 4) // three bytes of length, the message's number
	if _, err := io.ReadFull(conn, head); err != nil {
		return health{}, err
	}
	body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	if _, err := io.ReadFull(conn, body); err != nil {
		return health{}, err
	}
	if len(body) == 0 || body[0] != 10 {
		return health{}, fmt.Errorf("%s refuses: %q", m.Name(), body)
	}
	version, _, _ := bytes.Cut(body[1:], []byte{0})
	// It calls itself 5.5.5-10.11.14-MariaDB-…, for clients that have never heard of a 10.
	name := strings.TrimPrefix(string(version), "5.5.5-")
	name, _, _ = strings.Cut(name, "-")
	return health{serving: true, leads: true, version: name}, nil
}
