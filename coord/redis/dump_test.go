package redis

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// A dump that is read in brings the mark back with all else: in the same run of the server, it says that nothing was forgotten for long.
func TestADumpThatIsReadInLetsNobodyIn(t *testing.T) {
	for how, empty := range map[string][]string{"after FLUSHALL": {"FLUSHALL"}, "after FLUSHDB": {"FLUSHDB"}, "over what is there": nil} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			m := servers.Redis(t).Member(0)
			connect := func(ctx context.Context, address string, ttl time.Duration) (*coord.Client, error) {
				return Connect(ctx, address, WithTTL(ttl))
			}
			first := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) { return connect(ctx, m.Addr(), time.Second) })
			storecheck.Locked(t, first, "another").Release()
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{m.Addr()}, DisableCache: true})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx := redistest.Within(t, time.Minute)
			keys, err := c.Do(ctx, c.B().Keys().Pattern("*").Build()).AsStrSlice()
			if err != nil {
				t.Fatal(err)
			}
			dumps := make(map[string]string)
			for _, k := range keys {
				d, err := c.Do(ctx, c.B().Dump().Key(k).Build()).ToString()
				if err != nil {
					t.Fatal(err)
				}
				dumps[k] = d
			}
			storecheck.Newcomer(t, m.Addr(), connect, func() {
				if empty != nil {
					redistest.CLI(t, m.Addr(), empty...)
				} else {
					redistest.CLI(t, m.Addr(), "DEL", "turnwise:line/orders")
				}
				for k, d := range dumps {
					if err := c.Do(ctx, c.B().Restore().Key(k).Ttl(0).SerializedValue(d).Replace().Build()).Error(); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// That the counts begin anew has newcomers wait once more, and ends nothing.
func TestCountsThatAreSetBackEndNothing(t *testing.T) {
	t.Parallel()
	m := servers.Redis(t).Member(0)
	redistest.CLI(t, m.Addr(), "FLUSHALL")
	s := open1(t, m.Addr())
	before := redistest.Remembered(t, s)
	time.Sleep(2 * time.Second)
	redistest.CLI(t, m.Addr(), "CONFIG", "RESETSTAT")
	if after := redistest.Remembered(t, s); after.ID != before.ID || after.For > time.Second {
		t.Errorf("%v, and then %v", before, after)
	}
	time.Sleep(2 * time.Second)
	if after := redistest.Remembered(t, s); after.ID != before.ID || after.For < time.Second {
		t.Errorf("%v, and then %v", before, after)
	}
}
