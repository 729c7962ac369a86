package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/zk"
)

const zkPort = "2181/tcp"

// The suite's sessions are short, so the server's ticks must be short too.
const zooCfg = `
tickTime=100
minSessionTimeout=200
maxSessionTimeout=60000
dataDir=/data
clientPort=2181
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
`

func TestZooKeeper(t *testing.T) {
	t.Run("driver", func(t *testing.T) { drivertest.Run(t, zooKeeper) })
	t.Run("recipes", func(t *testing.T) { drivertest.RunRecipes(t, zooKeeper) })
}

func zooKeeper(t testing.TB) *drivertest.Service {
	addr := start(t, zkPort, testcontainers.ContainerRequest{
		Image: image("TURNWISE_ZOOKEEPER_IMAGE", "zookeeper:3.9"),
		Files: []testcontainers.ContainerFile{{
			Reader: strings.NewReader(zooCfg), ContainerFilePath: "/conf/zoo.cfg", FileMode: 0o644,
		}},
		WaitingFor: &serves{},
	})
	z := &zooKeeperService{admin: zkAdmin(t, addr)}
	return &drivertest.Service{
		TTL:     2 * time.Second,
		Connect: func(t testing.TB) *drivertest.Link { return z.connect(t, addr) },
		Stored:  z.stored,
	}
}

// serves waits until the server says which mode it is in: before that, it accepts connections and does nothing.
type serves struct{}

func (*serves) WaitUntilReady(ctx context.Context, target wait.StrategyTarget) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := srvr(ctx, target)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("ZooKeeper does not serve: %w", err)
		}
	}
}

func srvr(ctx context.Context, target wait.StrategyTarget) error {
	host, err := target.Host(ctx)
	if err != nil {
		return err
	}
	port, err := target.MappedPort(ctx, zkPort)
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port.Port()), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _ := conn.Read(answer)
	if !strings.Contains(string(answer[:n]), "Mode:") {
		return fmt.Errorf("srvr answers %q", answer[:n])
	}
	return nil
}

type zooKeeperService struct {
	admin *gozk.Conn // bypasses every proxy
}

const zkRoot = "/containers"

func (z *zooKeeperService) connect(t testing.TB, addr string) *drivertest.Link {
	n := newNetwork(t, addr)
	d, err := zk.New([]string{n.proxy.Addr()}, zk.WithTTL(2*time.Second), zk.WithRoot(zkRoot))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.proxy.Heal()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = d.Close(ctx)
	})
	return &drivertest.Link{Driver: d, Freeze: n.freeze, Cut: n.cut, Delay: n.delayed}
}

// stored lists what is in a line's directory. Contenders' names begin with _c_, those of nested lines do not.
func (z *zooKeeperService) stored(t testing.TB, line string) []string {
	names, _, err := z.admin.Children(zkRoot + "/" + line)
	if err != nil && !errors.Is(err, gozk.ErrNoNode) {
		t.Errorf("list %s: %v", line, err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "_c_") })
}

func zkAdmin(t testing.TB, addr string) *gozk.Conn {
	conn, _, err := gozk.Connect([]string{addr}, 30*time.Second, gozk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}
