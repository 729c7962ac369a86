package servers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// EtcdProxy starts etcd's own grpc-proxy in front of a cluster for the test, and returns its address.
func EtcdProxy(t testing.TB, c *Cluster) string {
	t.Helper()
	path, err := findEtcd(false)
	if err != nil {
		skip(t, err)
	}
	port, err := reservePort()
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(port.release)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port.port))
	dir := ScratchFor(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(path, "grpc-proxy", "start", "--endpoints="+strings.Join(c.Addrs(), ","), "--listen-addr="+addr,
		"--data-dir="+filepath.Join(dir, "data"))
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environment(), log, log
	p, err := StartProcess(cmd)
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(p.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for !p.listens(port.port) {
		if err := pause(ctx); err != nil || !p.Alive() {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("servers: the grpc-proxy does not serve: %v\n%s", err, said)
		}
	}
	return addr
}
