package memcached

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/internal/leak"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// Each of them is a mistake that no retry mends: one line says what to do, at once.
func TestWhatOpenRefuses(t *testing.T) {
	m := server(t)
	evicting := servers.Memcached(t).Member(0)
	blind := server(t, "-C")
	onDisk := server(t, "-o", "ext_path="+filepath.Join(t.TempDir(), "items")+":64m")
	moving := server(t, "-o", "slab_reassign")
	redis := servers.Redis(t).Member(0)
	const newer = "turnwise register, layout 2, 12345 0123456789abcdef"
	telnet(t, m.Addr(), "ms alien.memory 1 \r\nx")
	telnet(t, m.Addr(), fmt.Sprintf("ms newer.memory %d \r\n%s", len(newer), newer))
	for name, c := range map[string]struct {
		address string
		opts    []Option
		says    string
	}{
		"no address":         {"localhost", nil, "host:port"},
		"address of no host": {":11211", nil, "host:port"},
		"address of no port": {"localhost:", nil, "host:port"},
		"a root of 101":      {m.Addr(), []Option{WithRoot(strings.Repeat("r", 101))}, "letters, digits"},
		"an empty root":      {m.Addr(), []Option{WithRoot("")}, "letters, digits"},
		"a root with spaces": {m.Addr(), []Option{WithRoot("a b")}, "letters, digits"},
		"evictions":          {evicting.Addr(), nil, "start it with -M"},
		"no cas":             {blind.Addr(), nil, "-C"},
		"a file of items":    {onDisk.Addr(), nil, "ext_path"},
		"memory that moves":  {moving.Addr(), nil, "no_slab_reassign"},
		"something else":     {redis.Addr(), nil, "no memcached"},
		"another's keys":     {m.Addr(), []Option{WithRoot("alien")}, "WithRoot"},
		"a newer layout":     {m.Addr(), []Option{WithRoot("newer")}, "another version of turnwise"},
	} {
		class := driver.ErrDenied
		if strings.Contains(name, "address") || strings.Contains(name, "root") { // the server was not asked
			class = coord.ErrInvalid
		}
		t.Run(name, func(t *testing.T) {
			_, err := Open(within(t, 20*time.Second), c.address, append(c.opts, WithLogger(logger(t)))...)
			storecheck.Refused(t, err, class, c.says)
		})
	}
	opened(t, m.Addr(), WithRoot(strings.Repeat("r", 100)))
	opened(t, evicting.Addr(), WithEvictions())
	opened(t, onDisk.Addr(), WithEvictions())
	opened(t, moving.Addr(), WithEvictions())
}

func TestServersThatWouldNotDo(t *testing.T) {
	settings := func(version, more string) string {
		return fmt.Sprintf("STAT time 100\r\nSTAT version %s\r\nSTAT item_size_max 1048576\r\nSTAT cas_enabled yes\r\nSTAT evictions off\r\n%sEND\r\n", version, more)
	}
	for name, c := range map[string]struct{ answer, says string }{
		"too old":          {settings("1.5.22", ""), "1.6.12 or newer"},
		"almost":           {settings("1.6.9", ""), "1.6.12 or newer"},
		"with a password":  {"CLIENT_ERROR unauthenticated\r\n", "password"},
		"a proxy":          {"STAT version 1.6.38\r\nEND\r\n", "proxy"},
		"a web server":     {"HTTP/1.1 400 Bad Request\r\n\r\n", "no memcached"},
		"nothing sensible": {"\x00\x01\r\n", "no memcached"},
	} {
		t.Run(name, func(t *testing.T) {
			leak.None(t, 5*time.Second, func(t testing.TB) {
				_, err := Open(within(t, 20*time.Second), storecheck.Saying(t, c.answer))
				if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
					t.Errorf("it says %v, want %q", err, c.says)
				}
			})
		})
	}
}

func TestNobodyThereIsSaidInTime(t *testing.T) {
	storecheck.NobodyThere(t, "", func(ctx context.Context, address string) error {
		_, err := Open(ctx, address)
		return err
	})
}

func TestAWeakerLabelIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	_, err := Connect(within(t, time.Second), "127.0.0.1:1", WithClient(coord.Require(driver.Strength{Restart: driver.Remembers})))
	if !errors.Is(err, coord.ErrTooWeak) {
		t.Errorf("connect: %v", err)
	}
	_, err = Connect(within(t, time.Second), "127.0.0.1:1", WithEvictions(), WithClient(coord.Require(driver.Strength{Restart: driver.ForgetsOpenly})))
	if !errors.Is(err, coord.ErrTooWeak) {
		t.Errorf("connect to an evicting server: %v", err)
	}
}

// It passes when somebody hangs up.
func TestAServerWithoutAConnectionToSpare(t *testing.T) {
	m := server(t, "-t", "1", "-c", "100")
	var others []net.Conn
	for range 150 {
		c, err := net.Dial("tcp", m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		others = append(others, c)
	}
	time.Sleep(100 * time.Millisecond) // until the server has seen them
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := Open(ctx, m.Addr()); err == nil || errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "raise its -c") {
		t.Errorf("open: %v", err)
	}
	for _, c := range others {
		c.Close()
	}
	opened(t, m.Addr())
}

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, address, WithClient(o))
	})
}
