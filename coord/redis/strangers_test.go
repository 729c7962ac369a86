package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
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

// An empty text reads like a key that is gone, and would end all sessions if it counted as one.
func TestAStrangerWhoMaySetOneLineHarmsThatOneAlone(t *testing.T) {
	const key = "turnwise:line/junk"
	for name, what := range map[string]string{"nothing": "", "a letter": "x", "little more than a time": "xxxxxxxx0000000000000001"} {
		t.Run(name, func(t *testing.T) {
			address := servers.Redis(t).Addrs()[0]
			a, b := clients(t, address)
			if err := storecheck.Locked(t, a, "junk").Release(); err != nil {
				t.Fatal(err)
			}
			good := storecheck.Locked(t, a, "good")
			if err := as(t, address, "~"+key, "+set")("SET", key, what); err != nil {
				t.Fatal(err)
			}
			for _, c := range []*coord.Client{a, b} { // who has seen the line, and who has not
				if _, err := mutex.New(c, "junk").TryLock(redistest.Within(t, 10*time.Second)); !errors.Is(err, coord.ErrDenied) {
					t.Errorf("the line itself: %v", err)
				}
			}
			if _, err := b.Line(redistest.Within(t, 10*time.Second), "junk"); !errors.Is(err, coord.ErrDenied) {
				t.Errorf("a look at it: %v", err)
			}
			storecheck.ListsTheOthers(t, b, "good")
			storecheck.IsBusy(t, b, "good")
			if err := good.Release(); err != nil {
				t.Errorf("a hold of another line: %v", err)
			}
			if err := storecheck.Locked(t, b, "good").Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Who may write to a line can say that the next swap is reserved. It is not for longer than anybody reserves it.
func TestAReservationThatMakesNoSenseIsNone(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	a, b := clients(t, address)
	for _, until := range []string{"until-the-dawn!!", "nan             ", "inf             ", "9999999999999999"} {
		if err := storecheck.Locked(t, a, "junk").Release(); err != nil {
			t.Fatal(err)
		}
		redistest.CLI(t, address, "SETRANGE", "turnwise:line/junk", "24", "somebody"+until)
		h, err := mutex.New(b, "junk").TryLock(redistest.Within(t, 5*time.Second))
		if err != nil {
			t.Errorf("reserved %q: %v", until, err)
			continue
		}
		if err := h.Release(); err != nil {
			t.Error(err)
		}
	}
}

// A key that is gone looks like one that was thrown away, be it by a user who may write that one key alone.
func TestAStrangerWhoDeletesOneKeyLetsNobodyIn(t *testing.T) {
	for name, command := range map[string][]string{
		"removes it":     {"DEL", "turnwise:line/his"},
		"lets it expire": {"SET", "turnwise:line/his", "x", "PX", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			address := servers.Redis(t).Addrs()[0]
			says := mallory(t, address, "turnwise:line/his")
			a, b := clients(t, address)
			his, other := storecheck.Locked(t, a, "his"), storecheck.Locked(t, b, "other")
			says(command...)
			time.Sleep(10 * time.Millisecond) // until it has expired
			for _, name := range []string{"his", "other"} {
				storecheck.Locked(t, b, name)
			}
			for _, h := range []*coord.Hold{his, other} {
				if h.Err() == nil {
					t.Error("two hold")
				}
			}
		})
	}
}

// A script that comes to no end holds up all others, whatever keys its user may use. Nothing is granted meanwhile, and when somebody ends
// it all goes on.
func TestAStrangerWhoMayRunScriptsHoldsUpAll(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	redistest.CLI(t, address, "CONFIG", "SET", "lua-time-limit", "100")
	a, b := clients(t, address)
	h := storecheck.Locked(t, a, "orders")
	run := as(t, address, "+eval")
	over := make(chan error, 1)
	go func() { over <- run("EVAL", "while true do end", "0") }()
	storecheck.EndsSoon(t, h)
	if _, err := mutex.New(b, "orders").TryLock(redistest.Within(t, 2*time.Second)); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("a try meanwhile: %v", err)
	}
	redistest.CLI(t, address, "SCRIPT", "KILL")
	if err := <-over; err == nil {
		t.Error("the script has come to an end")
	}
	_ = h.Release()
	storecheck.ShutsOut(t, a, b, "orders")
}

// Commands about other connections are dangerous, and those about one's own are in the same category: +@connection is all of them.
func TestAStrangerWhoMayCommandConnections(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	a, b := clients(t, address)
	run := as(t, address, "+@connection")
	t.Run("ends them", func(t *testing.T) {
		h := storecheck.Locked(t, a, "orders")
		for range 20 {
			if err := run("CLIENT", "KILL", "USER", "default", "SKIPME", "yes"); err != nil {
				t.Fatal(err)
			}
			if err := run("CLIENT", "KILL", "TYPE", "pubsub"); err != nil {
				t.Fatal(err)
			}
		}
		storecheck.IsBusy(t, b, "orders")
		if err := h.Release(); err != nil {
			t.Error(err)
		}
	})
	for _, which := range []string{"ALL", "WRITE"} {
		t.Run("has them wait: "+which, func(t *testing.T) {
			h := storecheck.Locked(t, a, "orders")
			if err := run("CLIENT", "PAUSE", "8000", which); err != nil {
				t.Fatal(err)
			}
			storecheck.EndsSoon(t, h)
			_ = h.Release()
			next := storecheck.Locked(t, b, "orders")
			if err := next.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	run = as(t, address, "+@connection", "-@dangerous")
	for _, command := range [][]string{{"CLIENT", "KILL", "TYPE", "normal"}, {"CLIENT", "PAUSE", "1"}} {
		if err := run(command...); err == nil {
			t.Errorf("without what is dangerous he may %v", command)
		}
	}
}

// Redis asks who uses a key for a right to it. It tells the names of keys to whoever may ask which there are, or has it say which have
// changed, without any.
func TestAStrangerWhoMayUseNoKeySeesTheirNames(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	a, _ := clients(t, address)
	sees := func(t *testing.T, right string, commands ...string) {
		t.Helper()
		redistest.CLI(t, address, "ACL", "SETUSER", "poor", "reset", "on", ">his", "resetchannels", "+@connection", right, "-@dangerous")
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := fmt.Fprint(c, strings.Join(append([]string{"AUTH poor his", "HELLO 3"}, commands...), "\r\n")+"\r\n"); err != nil {
			t.Fatal(err)
		}
		seen := make(chan bool, 1)
		go func() {
			in := bufio.NewScanner(c)
			for in.Scan() {
				if in.Text() == "turnwise:line/orders" {
					seen <- true
					return
				}
			}
			seen <- false
		}()
		for {
			h := storecheck.Locked(t, a, "orders")
			if err := h.Release(); err != nil {
				t.Error(err)
			}
			select {
			case is := <-seen:
				if !is {
					t.Error("he sees no name")
				}
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	t.Run("that have changed", func(t *testing.T) { sees(t, "+@connection", "CLIENT TRACKING ON BCAST") })
	t.Run("that there are", func(t *testing.T) { sees(t, "+@read", "SCAN 0 COUNT 1000") })
	if err := as(t, address, "+@connection", "+@read")("GET", "turnwise:line/orders"); err == nil {
		t.Error("he may use one")
	}
	without := as(t, address, "+@connection", "+@read", "-@dangerous", "-client|tracking", "-scan", "-randomkey")
	for _, command := range [][]string{{"CLIENT", "TRACKING", "ON", "BCAST"}, {"SCAN", "0"}, {"KEYS", "*"}, {"RANDOMKEY"}} {
		if err := without(command...); err == nil {
			t.Errorf("without that he may %v", command)
		}
	}
}

// Whoever may have changes of keys told may have them told to others' connections: of his own keys as well, and more of them at once than
// we take. Numbers of connections follow one another.
func TestAStrangerWhoHasChangesToldToOthersEndsNoHold(t *testing.T) {
	address := servers.Redis(t).Addrs()[0]
	connect := func() *coord.Client {
		return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) { return Connect(ctx, address) })
	}
	a, b := connect(), connect()
	h := storecheck.Locked(t, a, "orders")
	redistest.CLI(t, address, "ACL", "SETUSER", "poor", "reset", "on", ">his", "~his:*", "resetchannels", "+@connection", "+@write", "-@dangerous")
	is := regexp.MustCompile(`\bid=(\d+) .* cmd=([^ ]*) user=default `)
	ours := func() (ids []string) {
		for _, c := range is.FindAllStringSubmatch(redistest.CLI(t, address, "CLIENT", "LIST"), -1) {
			if c[2] != "client|list" { // who asks
				ids = append(ids, c[1])
			}
		}
		return ids
	}
	says := func(c net.Conn, commands ...string) {
		t.Helper()
		if _, err := fmt.Fprint(c, strings.Join(commands, "\r\n")+"\r\n"); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		for said := ""; !strings.Contains(said, "his-is-all"); {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			said = line
		}
	}
	var many strings.Builder
	const keys = 70_000
	fmt.Fprintf(&many, "*%d\r\n$4\r\nMSET\r\n", 1+2*keys)
	for i := range keys {
		fmt.Fprintf(&many, "$9\r\nhis:%05d\r\n$1\r\nx\r\n", i)
	}
	before := ours()
	if len(before) < 2 {
		t.Fatalf("our connections are %v", before)
	}
	for range 3 {
		for _, id := range ours() {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			says(c, "AUTH poor his", "CLIENT TRACKING ON BCAST PREFIX his: REDIRECT "+id, "ECHO his-is-all")
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		says(c, "AUTH poor his", many.String()+"ECHO his-is-all")
	}
	storecheck.Eventually(t, "he ends connections of ours", func() bool {
		return !slices.ContainsFunc(ours(), func(id string) bool { return slices.Contains(before, id) })
	})
	storecheck.IsBusy(t, b, "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

func clients(t *testing.T, address string) (a, b *coord.Client) {
	connect := func() *coord.Client {
		return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
			return Connect(ctx, address, WithTTL(2*time.Second), WithLongestTTL(2*time.Second))
		})
	}
	return connect(), connect()
}

// as returns what a user may do who has these rights, and no key.
func as(t *testing.T, address string, rights ...string) func(command ...string) error {
	t.Helper()
	redistest.CLI(t, address, append([]string{"ACL", "SETUSER", "poor", "reset", "on", "nopass"}, rights...)...)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, Username: "poor", DisableCache: true, ForceSingleClient: true, DisableRetry: true, ConnWriteTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return func(command ...string) error {
		return c.Do(redistest.Within(t, time.Minute), c.B().Arbitrary(command...).Build()).Error()
	}
}
