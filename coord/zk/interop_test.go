package zk

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/verify/servers"
)

// umpire checks that nobody is inside who must not be. Peers in other languages talk to it over TCP.
type umpire struct {
	addr string

	mu      sync.Mutex
	readers int
	writers int
	served  map[string]int
	fouls   []string
}

func newUmpire(t *testing.T) *umpire {
	u := &umpire{served: make(map[string]int)}
	u.addr = listen(t, func(c net.Conn) {
		in := bufio.NewScanner(c)
		for in.Scan() {
			f := strings.Fields(in.Text())
			u.call(f[0], f[1], f[2])
			fmt.Fprintln(c, "ok")
		}
	})
	return u
}

func (u *umpire) call(word, mode, who string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 1
	if word == "leave" {
		n = -1
	} else {
		u.served[who]++
		if u.writers > 0 || mode == "W" && u.readers > 0 {
			u.fouls = append(u.fouls, fmt.Sprintf("%s enters as %s beside %d writers and %d readers", who, mode, u.writers, u.readers))
		}
	}
	if mode == "W" {
		u.writers += n
	} else {
		u.readers += n
	}
}

const (
	ourWorkers = 4
	peers      = 4
	peersTurns = 25 // each, so 200 in all
)

// ourTurns makes some of our clients take turns in line "a".
func ourTurns(t *testing.T, c *coord.Client, u *umpire, rw bool) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range ourWorkers {
		all.Go(func() {
			for turn := range peersTurns {
				kind, rule := "lock", exclusive
				switch {
				case rw && (turn+i)%2 == 1:
					kind = "R"
					rule = coord.Rule{WaitFor: rules.Shared, Sight: driver.Sight{Ignore: []string{"R"}}}
				case rw:
					kind = "W"
				}
				ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
				h, err := c.Acquire(ctx, "a", kind, nil, rule)
				cancel()
				if err != nil {
					t.Errorf("ours: %v", err)
					return
				}
				mode := "W"
				if kind == "R" {
					mode = "R"
				}
				who := "ours" + strconv.Itoa(i)
				u.call("enter", mode, who)
				time.Sleep(100 * time.Microsecond)
				u.call("leave", mode, who)
				if err := h.Release(); err != nil {
					t.Errorf("ours: %v", err)
				}
			}
		})
	}
	return &all
}

func (u *umpire) verdict(t *testing.T) {
	u.mu.Lock()
	defer u.mu.Unlock()
	require.Empty(t, u.fouls)
	require.Len(t, u.served, ourWorkers+peers)
	for who, n := range u.served {
		require.Equal(t, peersTurns, n, who)
	}
}

var interopLines = sync.OnceValue(func() func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprintf("/interop%d", n)
	}
})

func interop(t *testing.T, names Names, rw bool, peer func(t *testing.T, addr, path, umpire string) *exec.Cmd) {
	addr := servers.ZooKeeper(t, servers.Shared()).Addrs()[0]
	root := interopLines()()
	u := newUmpire(t)
	cmd := peer(t, addr, root+"/a", u.addr)
	c, err := Connect(t.Context(), []string{addr}, WithRoot(root), WithNames(names))
	require.NoError(t, err)
	defer c.Close()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	ours := ourTurns(t, c, u, rw)
	stop := time.AfterFunc(3*patience, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	stop.Stop()
	ours.Wait()
	require.NoError(t, err, said.String())
	u.verdict(t)
}

// Kazoo's writers stand in line with readers and writers of ours. Kazoo's own readers are left out: they also wait for
// writers behind them, who wait for them (python-zk/kazoo#649, in 2.8.0; three of Kazoo's contenders are enough to show
// it).
func TestInOneLineWithKazoo(t *testing.T) {
	for _, kind := range []string{"lock", "writers"} {
		t.Run(kind, func(t *testing.T) {
			interop(t, Kazoo, kind == "writers", func(t *testing.T, addr, path, umpire string) *exec.Cmd {
				folder := servers.Need(t, "kazoo")
				cmd := exec.Command(servers.NeedProgram(t, "python3"), "testdata/peer.py", addr, path, umpire, kind, strconv.Itoa(peers), strconv.Itoa(peersTurns))
				cmd.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1")
				return cmd
			})
		})
	}
}

func TestInOneLineWithCurator(t *testing.T) {
	for _, kind := range []string{"lock", "rw"} {
		t.Run(kind, func(t *testing.T) {
			interop(t, Curator, kind == "rw", func(t *testing.T, addr, path, umpire string) *exec.Cmd {
				folder := servers.Need(t, "curator")
				servers.NeedProgram(t, "javac") // without it java runs no source
				return exec.Command(servers.NeedJava(t), "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
					"-cp", filepath.Join(folder, "*"), "testdata/Peer.java",
					addr, path, umpire, kind, strconv.Itoa(peers), strconv.Itoa(peersTurns))
			})
		})
	}
}

func TestInOneLineWithTheLockOfTheClientLibrary(t *testing.T) {
	addr := servers.ZooKeeper(t, servers.Shared()).Addrs()
	root := interopLines()()
	u := newUmpire(t)
	c, err := Connect(t.Context(), addr, WithRoot(root))
	require.NoError(t, err)
	defer c.Close()
	conn := adminConn(t, addr)
	ours := ourTurns(t, c, u, false)
	var theirs sync.WaitGroup
	for i := range peers {
		theirs.Go(func() {
			for range peersTurns {
				l := gozk.NewLock(conn, root+"/a", gozk.WorldACL(gozk.PermAll))
				if err := lockOfTheirs(l); err != nil {
					t.Errorf("theirs: %v", err)
					return
				}
				u.call("enter", "W", "theirs"+strconv.Itoa(i))
				u.call("leave", "W", "theirs"+strconv.Itoa(i))
				if err := l.Unlock(); err != nil {
					t.Errorf("theirs: %v", err)
				}
			}
		})
	}
	theirs.Wait()
	ours.Wait()
	u.verdict(t)
}

// lockOfTheirs tries again where zk.Lock gives up, which creates its parent with a race.
func lockOfTheirs(l *gozk.Lock) error {
	var err error
	for range 10 {
		if err = l.Lock(); err != gozk.ErrNoNode {
			break
		}
	}
	return err
}

// Each kind has its own names in the other tools, and a contender is taken for what its tool means by it.
func TestNamesOfOtherToolsInOneLine(t *testing.T) {
	for names, want := range map[Names][]string{
		GoLock:  {`^_c_[0-9a-f]{32}-lock-\d{10}$`, `^_c_[0-9a-f]{32}-R-\d{10}$`, `^_c_[0-9a-f]{32}-W-\d{10}$`, `^_c_[0-9a-f]{32}-S1of2-\d{10}$`},
		Curator: {`^_c_[0-9a-f-]{36}-lock-\d{10}$`, `^_c_[0-9a-f-]{36}-__READ__\d{10}$`, `^_c_[0-9a-f-]{36}-__WRIT__\d{10}$`, `^_c_[0-9a-f-]{36}-S1of2-lock-\d{10}$`},
		Kazoo:   {`^[0-9a-f]{32}__lock__\d{10}$`, `^[0-9a-f]{32}__rlock__\d{10}$`, `^[0-9a-f]{32}-W__lock__\d{10}$`, `^[0-9a-f]{32}-S1of2__lock__\d{10}$`},
	} {
		s := play(t, WithNames(names))
		for i, kind := range []string{"lock", "R", "W", "S1of2"} {
			me, ahead := s.join(s.sess, kind)
			require.Regexp(t, want[i], filepath.Base(me.Node().ID))
			if i > 0 {
				require.Len(t, ahead, 1)
				require.Equal(t, []string{"lock", "R", "W", "S1of2"}[i-1], ahead[0].Kind)
			}
		}
		nodes, err := s.link.Line(s.ctx, "a")
		require.NoError(t, err)
		require.Len(t, nodes, 4)
	}
}

func TestForeignContendersCountWhateverTheNames(t *testing.T) {
	theirs := []string{
		"_c_0123456789abcdef0123456789abcdef-lock-", "_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-lock-",
		"_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-__WRIT__", "5f1d7b1a0e3c4b5f8d9e0a1b2c3d4e5f__lock__",
		"_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-latch-", "_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-lease-",
	}
	for _, names := range []Names{GoLock, Curator, Kazoo} {
		s := play(t, WithNames(names))
		s.mkdir(t, s.root)
		// The service takes a container away when nobody happens to stand there.
		_, err := s.admin.Create(s.root+"/a", nil, 0, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
		for _, name := range theirs {
			p, err := s.admin.Create(s.root+"/a/"+name, []byte("theirs"), gozk.FlagEphemeralSequential, gozk.WorldACL(gozk.PermAll))
			require.NoError(t, err)
			me, ahead, err := s.sess.Join(s.ctx, driver.Entry{Line: "a", Kind: "R", Sight: driver.Sight{Ignore: []string{"R"}}})
			require.NoError(t, err)
			require.Len(t, ahead, 1, name)
			require.Equal(t, p, ahead[0].ID)
			waiter := s.await(me, ahead...)
			time.Sleep(10 * time.Millisecond)
			require.NoError(t, s.admin.Delete(p, -1))
			w := s.answer(waiter)
			require.NoError(t, w.err)
			require.Empty(t, w.ahead)
			s.leave(me, false)
		}
	}
}
