package servers

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf16"
)

// StartZooKeeper starts ZooKeeper with its data under dir, and returns when it serves. Close ends it.
func StartZooKeeper(ctx context.Context, dir string, opts ...Option) (*Cluster, error) {
	return startZooKeeper(ctx, dir, configure(opts))
}

func startZooKeeper(ctx context.Context, dir string, cfg config) (*Cluster, error) {
	java, classPath, err := findZooKeeper()
	if err != nil {
		return nil, err
	}
	return start(ctx, &zooKeeper{java, classPath}, dir, cfg)
}

type zooKeeper struct{ java, classPath string }

func (*zooKeeper) name() string { return "ZooKeeper" }

func (*zooKeeper) url(m *Member) string { return m.Addr() }

func (*zooKeeper) goodOrder() syscall.Signal { return syscall.SIGTERM }

// clientPort is another one with TLS: the plain port stays open beside it, for the four-letter commands.
func (*zooKeeper) clientPort(cfg config) string {
	if cfg.tls {
		return "secure"
	}
	return "client"
}

func (z *zooKeeper) command(m *Member) (*exec.Cmd, error) {
	cfg := m.cluster.cfg
	if err := z.configure(m); err != nil {
		return nil, err
	}
	args := []string{
		// A small heap at first and only the quick compiler: a test's server lives for seconds.
		"-Xms32m", "-Xmx" + cfg.heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=" + cfg.verbosity,
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		// It warns of every Go client, since they don't ask for read-only mode.
		"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.ZooKeeperServer=" +
			map[bool]string{true: "error", false: cfg.verbosity}[cfg.verbosity == "warn"],
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dzookeeper.forceSync=" + map[bool]string{true: "yes", false: "no"}[cfg.fsync],
		"-Dzookeeper.preAllocSize=4096",
		// Container and TTL nodes are allowed, and empty containers are swept before a test gets bored.
		"-Dzookeeper.extendedTypesEnabled=true",
		"-Dznode.container.checkIntervalMs=200",
		// Servers that cannot reach one another ask again soon; by default they wait for up to a minute.
		"-Dzookeeper.fastleader.maxNotificationInterval=1000",
	}
	java, err := m.cluster.expand(m, cfg.java)
	if err != nil {
		return nil, err
	}
	args = append(args, java...)
	args = append(args, "-cp", z.classPath,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(m.dir, "zoo.cfg"))
	return exec.Command(z.java, args...), nil
}

// configure writes zoo.cfg, which knows every member's ports, and the member's number.
func (z *zooKeeper) configure(m *Member) error {
	cfg := m.cluster.cfg
	data := filepath.Join(m.dir, "data")
	lines := []string{
		"dataDir=" + property(data),
		"clientPort={port:client}",
		"clientPortAddress=127.0.0.1",
		"tickTime=" + strconv.FormatInt(cfg.tick.Milliseconds(), 10),
		"minSessionTimeout=" + strconv.FormatInt(2*cfg.tick.Milliseconds(), 10),
		"maxSessionTimeout=1000000",
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"initLimit=50",
		"syncLimit=10",
	}
	if len(m.cluster.members) > 1 {
		for _, other := range m.cluster.members {
			peer, err := m.cluster.via(m, other, "peer")
			if err != nil {
				return err
			}
			election, err := m.cluster.via(m, other, "election")
			if err != nil {
				return err
			}
			lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", other.id, peer, election))
		}
	}
	if cfg.tls {
		certs := m.cluster.certs
		lines = append(lines,
			"secureClientPort={port:secure}",
			"secureClientPortAddress=127.0.0.1",
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			"ssl.keyStore.location="+property(certs.server),
			"ssl.trustStore.location="+property(certs.authority),
			"ssl.clientAuth=need",
		)
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(m.id)), 0o644); err != nil {
		return err
	}
	_, err := m.writeConfig("zoo.cfg", slices.Concat(lines, cfg.lines, cfg.own[m.id-1]))
	return err
}

// property writes a path as Java's property files have it: in ASCII, with escapes for the rest.
func property(path string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(path)) {
		switch {
		case unit == '\\':
			b.WriteString(`\\`)
		case unit < 0x80:
			b.WriteByte(byte(unit))
		default:
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// next starts all members at once; most of a start is Java's own.
func (*zooKeeper) next(context.Context, *Member) error { return nil }

// probe asks for the mode, which a server says only once it serves; it answers ruok with imok before that.
func (z *zooKeeper) probe(ctx context.Context, m *Member) (health, error) {
	text, err := m.FourLetter(ctx, "srvr")
	if err != nil {
		return health{}, err
	}
	var h health
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Mode":
			h.serving = true
			h.leads = value == "leader" || value == "standalone"
		case "Zookeeper version":
			h.version, _, _ = strings.Cut(value, "-")
		}
	}
	return h, nil
}

// FourLetter sends one of ZooKeeper's four-letter commands ("mntr", "dump", "wchp", "conf", …) and returns the answer.
func (m *Member) FourLetter(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port("client"))))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// A deadline in the past ends the wait for a server that says nothing.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("%s to %s: %w", command, m.Name(), err)
	}
	return string(answer), nil
}

// Mntr returns ZooKeeper's own figures, by ZooKeeper's names: zk_packets_received, zk_watch_count, zk_ephemerals_count,
// zk_outstanding_requests, zk_znode_count, …. Those that are not integers are left out.
func (m *Member) Mntr(ctx context.Context) (map[string]int64, error) {
	text, err := m.FourLetter(ctx, "mntr")
	if err != nil {
		return nil, err
	}
	numbers := map[string]int64{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			numbers[key] = n
		}
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("mntr to %s: it does not serve: %s", m.Name(), strings.TrimSpace(text))
	}
	return numbers, nil
}
