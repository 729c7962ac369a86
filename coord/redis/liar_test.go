package redis

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// liar is the address of something that reads commands and answers as told; what ends with … it says without end.
func liar(t *testing.T, answer func(command []string) string) string { return serving(t, nil, answer) }

// serving is a liar that speaks TLS if there is a configuration for it.
func serving(t *testing.T, cfg *tls.Config, answer func(command []string) string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if cfg != nil {
		l = tls.NewListener(l, cfg)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					command, err := readCommand(r)
					if err != nil {
						return
					}
					if says, ok := strings.CutSuffix(answer(command), "…"); ok { // without end
						for err == nil {
							_, err = io.WriteString(conn, says)
						}
						return
					} else if _, err := io.WriteString(conn, says); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func readCommand(r *bufio.Reader) (command []string, err error) {
	number := func() (n int) {
		line, e := r.ReadString('\n')
		if err = e; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for left := number(); left > 0 && err == nil; left-- {
		part := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(r, part)
		}
		command = append(command, strings.TrimSpace(string(part)))
	}
	return command, err
}

// hello is how a Redis 7 answers what comes first, as far as the library looks at it.
func hello(command []string) (answer string, ok bool) {
	switch command[0] {
	case "HELLO":
		return "%2\r\n$5\r\nproto\r\n:3\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n", true
	case "CLIENT":
		return "+OK\r\n", true
	case "PING":
		return "+PONG\r\n", true
	}
	return "", false
}

// The library takes a server's word for how much it will say, and in its own goroutines it panics at what it does not expect.
func TestAServerThatLiesEndsNoProcess(t *testing.T) {
	first := map[string]string{
		"a string of a terabyte":       "$1099511627776\r\n",
		"a string of half a gigabyte":  "$536870912\r\n",
		"a negative string":            "$-2\r\n",
		"a length beyond all numbers":  "$99999999999999999999999\r\n",
		"an error of a terabyte":       "!1099511627776\r\n",
		"an array of two billion":      "*2147483647\r\n",
		"an array of ten million":      "*10000000\r\n",
		"a negative array":             "*-2\r\n",
		"a map of half the numbers":    "%4611686018427387904\r\n",
		"a negative map":               "%-5\r\n",
		"many arrays, each large":      strings.Repeat("*60000\r\n", 7),
		"arrays without end":           strings.Repeat("*1\r\n", 1000) + "…",
		"attributes without end":       "|1\r\n+a\r\n+b\r\n…",
		"a line without end":           "+" + strings.Repeat("+", 100<<10) + "…",
		"a chunk of a terabyte":        "$?\r\n;1099511627776\r\n",
		"chunks without end":           "$?\r\n" + strings.Repeat(";1000\r\n"+strings.Repeat("x", 1000)+"\r\n", 1_000),
		"an array without a length":    "*?\r\n" + strings.Repeat(":1\r\n", 1_000_000),
		"a number that is none":        ":--\r\n",
		"a string with a wrong end":    "$1\r\nxyz\r\n",
		"what is not Redis's protocol": "HTTP/1.1 400 Bad Request\r\n",
	}
	for what, answer := range first {
		t.Run(what, func(t *testing.T) {
			boundedly(t, liar(t, func([]string) string { return answer }))
		})
	}
	later := map[string]string{
		"two answers to one question":                ":1\r\n:2\r\n",
		"a subscription that nobody wanted":          ">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n",
		"a push in an answer":                        "*1\r\n>2\r\n+a\r\n+b\r\n",
		"two answers, and one to a subscription":     ":1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n",
		"a terabyte where a script's answer belongs": "*2\r\n$1099511627776\r\n",
	}
	for what, answer := range later {
		t.Run(what, func(t *testing.T) {
			boundedly(t, liar(t, func(command []string) string {
				if says, ok := hello(command); ok {
					return says
				}
				return answer
			}))
		})
	}
}

// A sentinel's answers are looked at by the library alone, and it counts on their shape.
func TestASentinelThatLiesEndsNoProcess(t *testing.T) {
	for what, lies := range map[string]map[string]string{
		"a master without an address": {"SENTINEL GET-MASTER-ADDR-BY-NAME": "*0\r\n"},
		"half an address":             {"SENTINEL GET-MASTER-ADDR-BY-NAME": "*1\r\n$1\r\nx\r\n"},
		"a role without a name":       {"ROLE": "*0\r\n"},
		"an event without words":      {"SUBSCRIBE": ">3\r\n$7\r\nmessage\r\n$9\r\n+sentinel\r\n$1\r\nx\r\n"},
		"a new master without words":  {"SUBSCRIBE": ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$6\r\norders\r\n"},
		"a boot without words":        {"SUBSCRIBE": ">3\r\n$7\r\nmessage\r\n$7\r\n+reboot\r\n$6\r\nmaster\r\n"},
		"queued":                      {"SUBSCRIBE": "-QUEUED\r\n"},
		"an answer to unsubscribe":    {"UNSUBSCRIBE": "+OK\r\n"},
	} {
		t.Run(what, func(t *testing.T) {
			var address string
			address = liar(t, func(command []string) string {
				verb := strings.ToUpper(command[0])
				if verb == "SENTINEL" {
					verb += " " + strings.ToUpper(command[1])
				}
				says, ok := hello(command)
				host, port, _ := net.SplitHostPort(address)
				switch verb {
				case "SUBSCRIBE":
					for i, channel := range command[1:] {
						says += fmt.Sprintf(">3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:%d\r\n", len(channel), channel, i+1)
					}
				case "UNSUBSCRIBE":
					says = ">3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n"
				case "SENTINEL SENTINELS":
					says = "*0\r\n"
				case "SENTINEL GET-MASTER-ADDR-BY-NAME":
					says = fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
				case "ROLE":
					says = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
				default:
					if !ok {
						says = "-ERR no more\r\n"
					}
				}
				if lie, ok := lies[verb]; ok {
					if says += lie; verb != "SUBSCRIBE" || lie[0] == '-' {
						says = lie
					}
				}
				return says
			})
			boundedly(t, "redis://"+address+"?master_set=orders")
		})
	}
}

// boundedly opens a store in vain, and sees that this takes little memory.
func boundedly(t *testing.T, address string) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
		}
	}()
	refused(t, 500*time.Millisecond, address)
	cancel()
	runtime.ReadMemStats(&after)
	if grown := int64(max(most.Load(), after.HeapAlloc)) - int64(before.HeapAlloc); grown > 200<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}

// Somebody who may write one key cannot keep others from being read or listed: what is larger than any register stays at the
// server.
func TestAKeyThatIsNoRegisterHarmsNoOther(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	s := open1(t, address)
	redistest.Put(t, s, "beside", "one")
	redistest.CLI(t, address, "SETRANGE", s.server.Root+"aloud", strconv.Itoa(5*server.MaxStored), "x")
	redistest.CLI(t, address, "SETRANGE", s.server.Root+"aloud", "0", strings.Repeat("1", headSize))
	redistest.CLI(t, address, "SET", s.server.Root+"apart", strings.Repeat("x", headSize))
	redistest.CLI(t, address, "ZADD", s.server.Index(), "0", s.server.Root+"aloud", "0", s.server.Root+"apart")
	isLarger := func(err error) bool { return err != nil && strings.Contains(err.Error(), "larger") }
	storecheck.Eventually(t, "reading says so", func() bool { // while it was made, a slow machine's server may have answered nobody
		_, err := s.Read(t.Context(), "aloud")
		if !isLarger(err) {
			t.Logf("read: %v", err)
		}
		return isLarger(err)
	})
	conflict := register.Swap{Key: "aloud", Old: register.NewVersion(), Next: register.NewVersion(), Value: []byte("x")}
	if _, err := s.Swap(t.Context(), conflict); !isLarger(err) {
		t.Errorf("swap: %v", err)
	}
	if it := redistest.Read(t, s, "beside"); string(it.Value) != "one" {
		t.Errorf("beside it stands %q", it.Value)
	}
	var keys []string
	if err := s.List(t.Context(), "", func(it register.Item) bool { keys = append(keys, it.Key); return true }); err != nil || len(keys) != 1 {
		t.Errorf("listed: %q, %v", keys, err)
	}
}

// A page of a listing ends early when there is much on it.
func TestAListingOfLargeRegistersIsBounded(t *testing.T) {
	s := open1(t, servers.Redis(t).Addrs()[0])
	value := strings.Repeat("x", server.MaxValue)
	for i := range 6 {
		redistest.Put(t, s, fmt.Sprint("large/", i), value)
	}
	n := 0
	if err := s.List(t.Context(), "large/", func(it register.Item) bool {
		if len(it.Value) == len(value) {
			n++
		}
		return true
	}); err != nil || n != 6 {
		t.Errorf("%d of 6 are listed: %v", n, err)
	}
}

// A server that speaks Redis's protocol and keeps something else than it was given is found out when a store is opened.
func TestAServerThatDoesSomethingElseIsRefused(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	s, err := Open(redistest.Within(t, 20*time.Second), "redis://"+saying(t, address, strings.NewReplacer()))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for what, other := range map[string][]string{
		"another value": {"\r\nrehearsal/", "\r\nReHearsal/"},
		"another key":   {defaultRoot + "rehearsal/", defaultRoot + "ReHearsal/"},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithCancel(redistest.Within(t, 20*time.Second))
			defer cancel()
			log := slog.New(slog.NewTextHandler(then(cancel), nil)) // it may pass, so it is tried again
			_, err := Open(ctx, "redis://"+saying(t, address, strings.NewReplacer(other...)), WithLogger(log))
			if err == nil {
				t.Fatal("it was opened")
			}
			wants(t, err, "instead of what was written", server.ErrStrange)
		})
	}
}

// then is a log that calls a function when something is about to be tried again.
type then func()

func (f then) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("trying on")) {
		f()
	}
	return len(b), nil
}

// Where it cannot be known whether a server throws keys away when its memory is short, somebody should look.
func TestAServerThatDoesNotSayWhetherItEvictsIsWarnedOf(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	for warned, relay := range map[bool]string{
		false: saying(t, address, strings.NewReplacer()),
		true:  saying(t, address, strings.NewReplacer("\nmaxmemory_policy:", "\nMaxMemory_Policy:")),
	} {
		var log bytes.Buffer
		s, err := Open(redistest.Within(t, 20*time.Second), "redis://"+relay, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if strings.Contains(log.String(), "maxmemory-policy is noeviction") != warned {
			t.Errorf("warned is %v; the log has %s", !warned, log.String())
		}
	}
}

// saying is the address of a relay that changes what a server says.
func saying(t *testing.T, to string, other *strings.Replacer) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", to)
			if err != nil {
				conn.Close()
				return
			}
			go func() {
				defer behind.Close()
				_, _ = io.Copy(behind, conn)
			}()
			go func() {
				defer conn.Close()
				buf := make([]byte, 64<<10) // the answers in question are short, and come at once
				for {
					n, err := behind.Read(buf)
					if err != nil {
						return
					}
					if _, err := other.WriteString(conn, string(buf[:n])); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
