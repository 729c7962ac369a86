package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// Whoever may write to some lines can make them so large that all of them take longer to read than a session lasts. Somebody reads them
// now and then who clears away what the dead have left. What his own holds live by does not wait behind that.
func TestAStrangerWhoseLinesAreLargeEndsNoHold(t *testing.T) {
	const lines, perSecond = 4, 8 << 20
	address := servers.Redis(t).Addrs()[0]
	says := mallory(t, address, "turnwise:line/his/*")
	connect := func(address string) *coord.Client {
		return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
			return Connect(ctx, address, WithTTL(4*time.Second), WithLongestTTL(4*time.Second), WithLogger(storecheck.Logger(t)))
		})
	}
	before := connect(address)
	name := func(i int) string { return fmt.Sprint("his/", i) }
	for i := range lines {
		if err := storecheck.Locked(t, before, name(i)).Release(); err != nil {
			t.Fatal(err)
		}
	}
	if err := before.Close(); err != nil { // it clears nothing away any more
		t.Fatal(err)
	}
	h := storecheck.Locked(t, connect(storecheck.Slowly(t, address, perSecond)), "orders")
	for i := range lines {
		key := "turnwise:line/" + name(i)
		since := redistest.CLI(t, address, "GETRANGE", key, "8", "23")
		says("SET", key, strings.Repeat("v", 8)+since+strings.Repeat("x", server.MaxStored-24))
	}
	select {
	case <-h.Context().Done():
	case <-time.After(20 * time.Second):
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}
