package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// A server does one command after the other, and all that a client has sent in one go, 16 KB, before it looks at the next client. So whoever
// may use one that takes it some milliseconds has all holds end in time, and there is one in each category. Nothing is granted meanwhile.
func TestAStrangerWhoKeepsTheServerBusyHoldsUpAll(t *testing.T) {
	for _, c := range []struct {
		name, rights, without string
		times                 int
		send                  func(send func(commands string))
	}{
		{"reads no key", "+@read", "-lolwut", 2, func(send func(string)) {
			send(strings.Repeat("LOLWUT VERSION 5 1 200 200\r\n", 400))
		}},
		{"reads and writes keys of his own", "~his:* +@read +@write", "-lcs", 1, func(send func(string)) {
			long := strings.Repeat("a", 4000)
			send("SET his:a " + long + "\r\nSET his:b " + long + "\r\n" + strings.Repeat("LCS his:a his:b LEN\r\n", 70))
		}},
		{"commands his own connection", "+@connection", "-client|tracking", 1, func(send func(string)) {
			const prefixes = 45_000 // each is compared with all others
			var one strings.Builder
			fmt.Fprintf(&one, "*%d\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n$5\r\nBCAST\r\n", 4+2*prefixes)
			for i := range prefixes {
				fmt.Fprintf(&one, "$6\r\nPREFIX\r\n$6\r\n%06d\r\n", i)
			}
			send(one.String())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := servers.Redis(t).Addrs()[0]
			a, b := clients(t, address)
			h := storecheck.Locked(t, a, "orders")
			rights := append(append([]string{"ACL", "SETUSER", "poor", "reset", "on", ">his", "resetchannels"}, strings.Fields(c.rights)...), "-@dangerous", "-@scripting")
			redistest.CLI(t, address, rights...)
			for range c.times {
				c.send(func(commands string) { sends(t, address, commands) })
			}
			keptFromAll(t, a, b, h)
			redistest.CLI(t, address, append(rights, c.without)...)
			asks := sends(t, address, "")
			c.send(func(commands string) { go fmt.Fprint(asks, commands) })
			said := make([]byte, 1<<16)
			_ = asks.SetReadDeadline(time.Now().Add(10 * time.Second))
			for all := ""; !strings.Contains(all, "NOPERM"); {
				n, err := asks.Read(said)
				if err != nil {
					t.Fatalf("with %s: %v", c.without, err)
				}
				all += string(said[:n])
			}
		})
	}
}

// Each note is compared with each pattern by which somebody hears: with many of them, a note takes the server a long time.
func TestAStrangerWhoHearsByManyPatternsMakesEachNoteSlow(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	a, b := clients(t, address)
	h := storecheck.Locked(t, a, "orders")
	redistest.CLI(t, address, "ACL", "SETUSER", "poor", "reset", "on", ">his", "allchannels", "+psubscribe")
	const each, many = 5_000, 12
	for i := range many {
		c := sends(t, address, "") // each client has patterns of its own, since a new one is compared with all that the same client has
		go func() { _, _ = io.Copy(io.Discard, c) }()
		var all strings.Builder
		for j := range each {
			fmt.Fprintf(&all, "PSUBSCRIBE %s%d!\r\n", strings.Repeat("*?", 30), i*each+j)
		}
		if _, err := fmt.Fprint(c, all.String()); err != nil {
			t.Fatal(err)
		}
	}
	storecheck.Eventually(t, "he hears by all of them", func() bool { return redistest.CLI(t, address, "PUBSUB", "NUMPAT") == fmt.Sprint(each*many) })
	const channel = "turnwise.told:abcdefghijklmnopqrstuvwxyz"
	start := time.Now()
	redistest.CLI(t, address, "PUBLISH", channel, "x")
	if took := time.Since(start); took < 20*time.Millisecond {
		t.Errorf("a note takes %v", took)
	}
	if h.Err() != nil { // while he began
		h = storecheck.Locked(t, a, "orders")
	}
	redistest.CLI(t, address, "ACL", "SETUSER", "poor", "+publish")
	sends(t, address, strings.Repeat("PUBLISH "+channel+" x\r\n", 60))
	keptFromAll(t, a, b, h)
}

// Up to Redis 7.0 each new pattern is also compared with all others of its client, so it takes no note.
func TestAStrangerWhoMayHearHoldsUpAnOlderServer(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	if !regexp.MustCompile(`redis_version:(6|7\.0)\.`).MatchString(redistest.CLI(t, address, "INFO", "server")) {
		t.Skip("a newer server finds patterns without looking at all")
	}
	redistest.CLI(t, address, "ACL", "SETUSER", "poor", "reset", "on", ">his", "allchannels", "+psubscribe")
	a, b := clients(t, address)
	h := storecheck.Locked(t, a, "orders")
	const patterns = 18_000
	var one strings.Builder
	fmt.Fprintf(&one, "*%d\r\n$10\r\nPSUBSCRIBE\r\n", 1+patterns)
	for i := range patterns {
		fmt.Fprintf(&one, "$6\r\n%06d\r\n", i)
	}
	c := sends(t, address, one.String())
	go func() { _, _ = io.Copy(io.Discard, c) }()
	keptFromAll(t, a, b, h)
}

// keptFromAll checks that a hold ends in time, that nobody is let in before, and that all goes on when the server does.
func keptFromAll(t *testing.T, a, b *coord.Client, h *coord.Hold) {
	t.Helper()
	if _, err := mutex.New(b, "orders").TryLock(redistest.Within(t, time.Second)); !errors.Is(err, coord.ErrUnavailable) && !errors.Is(err, coord.ErrBusy) {
		t.Errorf("a try meanwhile: %v", err)
	}
	storecheck.EndsSoon(t, h)
	_ = h.Release()
	storecheck.ShutsOut(t, a, b, "orders")
}

// sends has somebody who is poor send commands, and read no answer.
func sends(t *testing.T, address, commands string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprint(c, "AUTH poor his\r\n"+commands); err != nil {
		t.Fatal(err)
	}
	return c
}
