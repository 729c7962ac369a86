package memcached

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/docs"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// Words of the tests of all stores.
var (
	within = storecheck.Within
	logger = storecheck.Logger
	put    = storecheck.Put
	read   = storecheck.Read
)

func server(t testing.TB, flags ...string) *servers.Member {
	t.Helper()
	return servers.Memcached(t, servers.Flags(append([]string{"-M", "-m", "256"}, flags...)...)).Member(0)
}

// opened opens a store, and closes it with the test.
func opened(t testing.TB, address string, opts ...Option) *Store {
	t.Helper()
	return storecheck.Opened(t, func(ctx context.Context) (*Store, error) {
		return Open(ctx, address, append([]Option{WithLogger(logger(t))}, opts...)...)
	})
}

// answers is what the server answers to requests, on a connection of the store's.
func answers(t testing.TB, s *Store, requests ...request) (all []reply) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	if err := s.pool.Do(ctx, func(c *conn) (err error) {
		all, err = c.ask(ctx, requests...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// knownBy is the memory that the store goes by.
func knownBy(t testing.TB, s *Store) *memory {
	t.Helper()
	m, err := s.known.Current()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// telnet sends a line as an operator would, and returns the first line of the answer.
func telnet(t testing.TB, address, line string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s\r\n", line)
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

func TestStore(t *testing.T) {
	m := server(t)
	storetest.Run(t, func(t testing.TB) *storetest.System {
		return &storetest.System{
			Open:    func(t testing.TB) register.Store { return opened(t, m.Addr()) },
			Mute:    true,
			Limit:   1<<20 - 4<<10,
			Restart: func(t testing.TB) { m.Restart(t) },
			Forget:  func(t testing.TB) { telnet(t, m.Addr(), "flush_all") },
			Spoil: func(t testing.TB, key string) {
				if got := telnet(t, m.Addr(), "set "+opened(t, m.Addr()).keyOf(key)+" 0 0 5\r\nhello"); got != "STORED" {
					t.Fatal(got)
				}
			},
			Freeze: func(testing.TB) (thaw func()) { m.Freeze(); return m.Thaw },
		}
	})
}

func service(t testing.TB) *drivertest.Service {
	m := server(t)
	return storetest.Service(t, &storetest.System{
		TTL:     2 * time.Second,
		Open:    func(t testing.TB) register.Store { return opened(t, m.Addr()) },
		Mute:    true,
		Restart: func(t testing.TB) { m.Restart(t) },
	})
}

func TestConformance(t *testing.T) { drivertest.Run(t, service) }
func TestRecipes(t *testing.T)     { drivertest.RunRecipes(t, service) }

func TestTheTableOfEnginesHasOurRow(t *testing.T) {
	if row := docs.MissingInEngines("coord/memcached", register.New(&Store{}).Strength()); row != "" {
		t.Errorf("docs/engines.md lacks\n%s", row)
	}
}
