package quorum

import (
	"context"
	"errors"
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
