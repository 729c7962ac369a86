package redis

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// mallory may write to some keys. Some commands need no key.
func mallory(t *testing.T, address, keys string) func(command ...string) {
	t.Helper()
	redistest.CLI(t, address, "ACL", "SETUSER", "mallory", "on", "nopass", "~"+keys, "+@read", "+@write", "+@connection")
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, Username: "mallory", DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return func(command ...string) {
		t.Helper()
		if err := c.Do(redistest.Within(t, 10*time.Second), c.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatalf("%v: %v", command, err)
		}
	}
}

// A user who may write has the right to exchange databases, whatever his keys are. When they are exchanged and exchanged back, what
// was granted in between is not forgotten.
func TestAStrangerWhoMayWriteOtherKeysLetsNobodyIn(t *testing.T) {
	cluster := servers.Redis(t)
	address := cluster.Addrs()[0]
	says := mallory(t, address, "other:*")
	const ttl = 2 * time.Second
	connect := func() *coord.Client {
		c, err := Connect(t.Context(), address, WithTTL(ttl), WithLongestTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	take := func(c *coord.Client) *coord.Hold {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		h, err := mutex.New(c, "a").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := connect()
	take(first).Release()
	says("SWAPDB", "0", "1")
	second := connect()
	held := take(second)
	says("SWAPDB", "0", "1")
	began := time.Now()
	third := take(connect())
	select {
	case <-held.Context().Done():
	default:
		t.Error("two hold")
	}
	if d := time.Since(began); d < ttl {
		t.Errorf("somebody was let in after %v: whoever held had not noticed yet", d)
	}
	third.Release()
}

// In the place of a line there may be something of another type.
func TestWhoSpoilsOneKeyKeepsNobodyFromListingTheOthers(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	c := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) { return Connect(ctx, address, WithRoot("r")) })
	h := storecheck.Locked(t, c, "spoilt")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	spoilt := "r:line/spoilt"
	if redistest.CLI(t, address, "EXISTS", spoilt) != "1" {
		t.Fatalf("it is not under %s: %s", spoilt, redistest.CLI(t, address, "KEYS", "*"))
	}
	redistest.CLI(t, address, "DEL", spoilt)
	redistest.CLI(t, address, "LPUSH", spoilt, "x")
	storecheck.Locked(t, c, "orders")
	storecheck.ListsTheOthers(t, c, "orders")
}

// A key that is gone looks like one that was thrown away, be it by a user who may write that one key alone.
func TestAStrangerWhoDeletesOneKeyLetsNobodyIn(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	says := mallory(t, address, "turnwise:line/his")
	connect := func() *coord.Client {
		return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
			return Connect(ctx, address, WithTTL(2*time.Second), WithLongestTTL(2*time.Second))
		})
	}
	a, b := connect(), connect()
	his, other := storecheck.Locked(t, a, "his"), storecheck.Locked(t, b, "other")
	says("DEL", "turnwise:line/his")
	for _, name := range []string{"his", "other"} {
		storecheck.Locked(t, b, name)
	}
	for _, h := range []*coord.Hold{his, other} {
		if h.Err() == nil {
			t.Error("two hold")
		}
	}
}
