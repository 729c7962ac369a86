package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/redis"
)

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, []string{address, "127.0.0.1:1", "127.0.0.1:2"}, redis.WithClient(o))
	})
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
