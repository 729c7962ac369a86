package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, []string{address, "127.0.0.1:1", "127.0.0.1:2"}, redis.WithClient(o))
	})
}

// Three servers out of five are no majority to those who know of three only.
func TestAGroupKnowsHowManyServersItHas(t *testing.T) {
	all := servers.Redis(t, servers.Members(5)).Addrs()
	for _, c := range []struct {
		group, named []string
		says         string
	}{
		{all[:3], all, `"3" servers, and 5`},
		{all, all[:3], `"5" servers, and 3`},
		{all, all[1:], `"5" servers, and 4`},
	} {
		root := redis.WithRoot(fmt.Sprintf("group of %d named %d", len(c.group), len(c.named)))
		ctx := redistest.Within(t, 20*time.Second)
		q, err := Open(ctx, c.group, root)
		if err != nil {
			t.Fatal(err)
		}
		other, err := Open(ctx, c.named, root)
		if err == nil {
			other.Close()
		}
		if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a group of %d is opened by the names of %d: %v", len(c.group), len(c.named), err)
		}
		redistest.Put(t, q, "a", "one")
		q.Close()
	}
}

// Too few could not lose any, and too many would only be slow.
func TestHowManyServersAreAQuorum(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 12 {
		var addresses []string
		for i := range n {
			addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", 1+i))
		}
		_, err := Open(ctx, addresses)
		if invalid := n < 3 || n > 9; errors.Is(err, coord.ErrInvalid) != invalid || errors.Is(err, coord.ErrUnavailable) == invalid {
			t.Errorf("%d servers: %v", n, err)
		}
	}
}

// Whichever step the end of ctx cuts short, the error has the same class.
func TestAQuorumThatIsNotOpenedInTimeIsOutOfReach(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		_, err := Open(ctx, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"})
		if !errors.Is(err, coord.ErrUnavailable) || !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "turnwise: redis/quorum: open") {
			t.Fatalf("open: %v", err)
		}
	}
}
