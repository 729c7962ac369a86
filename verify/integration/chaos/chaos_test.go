package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

var length = flag.Duration("chaos.length", 20*time.Second, "for how long faults come, in each run on servers of a cluster")

func TestMain(m *testing.M) {
	if text := os.Getenv(jobVariable); text != "" { // as main does
		work(text)
		return
	}
	os.Exit(servers.Main(m))
}

// On stores, for less long: their driver is the same for all.
func TestChaosOnStores(t *testing.T) {
	for service, needed := range map[string]string{"file": "", "redis": "redis", "quorum": "redis", "postgres": "postgres"} {
		t.Run(service, func(t *testing.T) {
			if needed != "" {
				servers.Need(t, needed)
			}
			t.Parallel()
			judged(t, plan{service: service, length: *length / 2})
		})
	}
}

func TestChaos(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			for service, needed := range map[string]string{"etcd": "etcd", "zk": "zookeeper"} {
				t.Run(service, func(t *testing.T) {
					servers.Need(t, needed)
					t.Parallel()
					judged(t, plan{service: service, members: members, length: *length})
				})
			}
		})
	}
}

// judged runs a plan again if the service itself forgot what it had confirmed, and something was wrong then: that says
// nothing of the recipes. A stale write that was taken is a failure all the same: tokens are for just that.
func judged(t *testing.T, p plan) {
	for tries := 1; ; tries++ {
		p.seed, p.workers, p.session = uint64(time.Now().UnixNano()), 4, 2*time.Second
		p.dir, p.logf = servers.ScratchFor(t), t.Logf
		v, s, err := run(p)
		require.NoError(t, err, "seed %d", p.seed)
		var report strings.Builder
		v.write(&report, s.recoveries)
		t.Log("\n" + report.String())
		wrong := v.failures(s.recoveries)
		if len(wrong) > 0 && len(v.lapses) > 0 && len(v.stale) == 0 && tries < 3 {
			t.Log("the service itself forgot, so this is run again:", wrong)
			continue
		}
		require.Empty(t, wrong, "seed %d", p.seed)
		return
	}
}
