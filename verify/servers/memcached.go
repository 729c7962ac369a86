package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// StartMemcached starts memcached, and returns when it serves. Its log is under dir; it keeps no data. Close ends it.
func StartMemcached(ctx context.Context, dir string, opts ...Option) (*Cluster, error) {
	return startMemcached(ctx, dir, configure(opts))
}

func startMemcached(ctx context.Context, dir string, cfg config) (*Cluster, error) {
	path, err := Find("memcached/memcached")
	if err != nil {
		return nil, err
	}
	return start(ctx, &memcached{path: path}, dir, cfg)
}

type memcached struct {
	independent
	path string
}

func (*memcached) name() string { return "memcached" }

func (*memcached) url(m *Member) string { return m.Addr() }

func (c *memcached) command(m *Member) (*exec.Cmd, error) {
	flags := []string{"-l", "127.0.0.1", "-p", "{port:client}", "-U", "0", "-o", "no_slab_reassign"}
	if os.Geteuid() == 0 {
		flags = append(flags, "-u", "root") // it runs as root only if told to
	}
	flags, err := m.cluster.expand(m, slices.Concat(flags, m.cluster.cfg.flags))
	return exec.Command(c.path, flags...), err
}

func (*memcached) probe(ctx context.Context, m *Member) (health, error) {
	conn, err := m.dial(ctx)
	if err != nil {
		return health{}, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "version\r\n"); err != nil {
		return health{}, err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return health{}, err
	}
	version, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION ")
	if !ok {
		return health{}, fmt.Errorf("version of %s: %s", m.Name(), line)
	}
	return health{serving: true, leads: true, version: version}, nil
}
