package redis

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// Whoever may write to some lines can make them so large that they take longer to read than a session lasts, and somebody reads them now
// and then who clears away what the dead have left. What his own holds live by does not wait behind that.
func TestAStrangerWhoseLinesAreLargeEndsNoHold(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	redistest.CLI(t, address, "SETRANGE", "turnwise:line/his", "4000000", "x") // any user may who may write that key
	s, err := Open(redistest.Within(t, time.Minute), storecheck.Clogged(t, address, 1<<20), WithLogger(storecheck.Logger(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if 4_000_000 > server.MaxStored {
		t.Fatal("nobody reads that")
	}
	storecheck.RenewedBeside(t, s, func(ctx context.Context) error {
		_, err := s.Read(ctx, "line/his")
		return err
	})
}
