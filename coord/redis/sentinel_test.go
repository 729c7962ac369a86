package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// watched starts a sentinel for a master that has one replica. It returns the sentinel's address and its name for the
// master.
func watched(t *testing.T, master string, downAfter time.Duration) (sentinel, name string) {
	t.Helper()
	path, err := servers.Find("redis/redis-server")
	if err != nil {
		t.Fatal(err)
	}
	host, masterPort, _ := net.SplitHostPort(master)
	name = "orders-" + masterPort // another's sentinel has none of that name
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		sentinel = l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(sentinel)
		config := fmt.Sprintf("bind 127.0.0.1\nport %s\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s %d\n"+
			"sentinel failover-timeout %s 10000\n", port, name, host, masterPort, name, downAfter.Milliseconds(), name)
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		process, err := servers.StartProcess(exec.Command(path, file, "--sentinel"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(process.Kill)
		storecheck.Eventually(t, "the sentinel to serve, and to know the replica", func() bool {
			conn, err := net.Dial("tcp", sentinel)
			if err != nil {
				return !process.Alive()
			}
			conn.Close()
			return !process.Alive() || containsAll(redistest.CLI(t, sentinel, "INFO", "sentinel"), "name="+name+",status=ok", "slaves=1")
		})
		if process.Alive() {
			return sentinel, name
		} // somebody has taken its port
	}
}

// replicated starts a master and a replica of it.
func replicated(t *testing.T) (cluster *servers.Cluster, master, replica string) {
	t.Helper()
	cluster = servers.Redis(t, servers.Members(2))
	master, replica = cluster.Addrs()[0], cluster.Addrs()[1]
	follow(t, replica, master)
	return cluster, master, replica
}

// belief looks at a hold until it is asked how long that was good.
func belief(hold *coord.Hold) (until func() time.Time) {
	stop, last := make(chan struct{}), make(chan time.Time)
	go func() {
		var believed time.Time
		for {
			now := time.Now()
			if hold.Err() == nil {
				believed = now
			}
			select {
			case <-stop:
				last <- believed
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() time.Time { close(stop); return <-last }
}

func locked(t *testing.T, c *coord.Client) *coord.Hold {
	t.Helper()
	h, err := mutex.New(c, "orders").Lock(redistest.Within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func connected(t *testing.T, address string, ttl time.Duration) *coord.Client {
	t.Helper()
	c, err := Connect(redistest.Within(t, 30*time.Second), address, WithTTL(ttl), WithLongestTTL(ttl), WithCleartextPassword())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAFailOverBySentinelsLetsNobodyInBesideTheHolder(t *testing.T) {
	for _, how := range []string{"the master is killed", "the master makes way"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			const ttl = 2 * time.Second
			cluster, master, replica := replicated(t)
			sentinel, name := watched(t, master, 500*time.Millisecond)
			address := "redis://" + sentinel + "?master_set=" + name
			first, second := connected(t, address, ttl), connected(t, address, ttl)
			until := belief(locked(t, first))
			begun := time.Now()
			if how == "the master is killed" {
				cluster.Member(0).Kill()
			} else {
				redistest.CLI(t, sentinel, "SENTINEL", "FAILOVER", name)
			}
			next := locked(t, second)
			granted := time.Now()
			believed := until()
			if !believed.Before(granted) {
				t.Errorf("both believed")
			}
			if waited := granted.Sub(begun); waited < ttl {
				t.Errorf("somebody was granted after %v: the new master may lack a hold, and not all TTLs had passed", waited)
			}
			if info := redistest.CLI(t, replica, "INFO", "replication"); !containsAll(info, "role:master") {
				t.Errorf("the replica did not take over: %s", info)
			}
			if err := next.Release(); err != nil {
				t.Error(err)
			}
			if err := locked(t, first).Release(); err != nil { // the holder goes on
				t.Error(err)
			}
		})
	}
}

// Sentinels that cannot reach a master put another one in its place, while the first one still answers clients that can
// reach it.
func TestAMasterThatIsCutOffMustStopBeforeAnotherTakesItsPlace(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("it goes on alone: %v", alone), func(t *testing.T) {
			t.Parallel()
			const ttl = 2 * time.Second
			_, master, replica := replicated(t)
			for _, a := range []string{master, replica} {
				redistest.CLI(t, a, "ACL", "SETUSER", "u", "on", ">sesame", "~*", "&*", "+@all")
			}
			if !alone { // as the documentation says
				redistest.CLI(t, master, "CONFIG", "SET", "min-replicas-to-write", "1")
				redistest.CLI(t, master, "CONFIG", "SET", "min-replicas-max-lag", "1")
			}
			watched(t, master, 4*time.Second)
			until := belief(locked(t, connected(t, "redis://u:sesame@"+master, ttl)))

			// The sentinel and the replica come without a name, and are not let in any more.
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{master}, Username: "u", Password: "sesame",
				DisableCache: true, ForceSingleClient: true})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, command := range [][]string{{"ACL", "SETUSER", "default", "off"}, {"CLIENT", "KILL", "USER", "default"}} {
				if err := c.Do(t.Context(), c.B().Arbitrary(command...).Build()).Error(); err != nil {
					t.Fatal(err)
				}
			}
			storecheck.Eventually(t, "another to take its place", func() bool { // a replica is refused
				s, err := Open(redistest.Within(t, 5*time.Second), replica)
				if err == nil {
					s.Close()
				}
				return err == nil
			})
			locked(t, connected(t, replica, ttl))
			granted := time.Now()
			believed := until()
			if both := believed.After(granted.Add(-10 * time.Millisecond)); both != alone {
				t.Errorf("who held believed so until %v before the next one was granted", granted.Sub(believed))
			}
		})
	}
}

// Sentinels say where the master is, and it may be on another machine than they are.
func TestSentinelsLeadNoPasswordAway(t *testing.T) {
	_, master, _ := replicated(t)
	sentinel, _ := watched(t, master, 5*time.Second)
	redistest.CLI(t, sentinel, "SENTINEL", "MONITOR", "far", "192.0.2.1", "6379", "1")
	address := "redis://:sesame@" + sentinel + "?master_set=far"
	wants(t, refused(t, 10*time.Second, address), "the password would go to 192.0.2.1:6379, in clear", driver.ErrDenied)
	if err := refused(t, time.Second, address, WithCleartextPassword()); errors.Is(err, driver.ErrDenied) {
		t.Errorf("where it is allowed: %v", err)
	}
}

// Who answers in a sentinel's place could lead everybody to a server of his own, for which he has a certificate.
func TestASentinelHasToShowACertificate(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprint("encrypted: ", encrypted), func(t *testing.T) {
			told := make(chan string, 100)
			host, port, _ := net.SplitHostPort(serving(t, web.TLS, func(command []string) string {
				told <- strings.Join(command, " ")
				return "-ERR no\r\n"
			}))
			var cfg *tls.Config
			if encrypted {
				cfg = web.TLS
			}
			sentinel := serving(t, cfg, func(command []string) string {
				says, ok := hello(command)
				switch verb := strings.ToUpper(command[0]); {
				case verb == "SUBSCRIBE":
					for i, channel := range command[1:] {
						says += fmt.Sprintf(">3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:%d\r\n", len(channel), channel, i+1)
					}
				case verb == "SENTINEL" && strings.EqualFold(command[1], "SENTINELS"):
					says = "*0\r\n"
				case verb == "SENTINEL":
					says = fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
				case !ok:
					says = "-ERR no more\r\n"
				}
				return says
			})
			refused(t, 2*time.Second, "redis://:sesame@"+sentinel+"?master_set=orders", WithTLS(&tls.Config{RootCAs: roots}))
			select {
			case command := <-told:
				if !encrypted {
					t.Errorf("a server was told %q", command)
				}
			default:
				if encrypted {
					t.Error("the master is not asked")
				}
			}
		})
	}
}

// Sentinels believe what they are told on a channel of the master, by whomever. Who may publish on all channels leads everybody to a
// server of his own, where nobody holds.
func TestAStrangerWhoMayPublishLeadsTheSentinelsAway(t *testing.T) {
	const ttl = 2 * time.Second
	_, master, _ := replicated(t)
	sentinel, name := watched(t, master, time.Minute)
	his := servers.Redis(t).Addrs()[0]
	if err := locked(t, connected(t, "redis://"+his, ttl)).Release(); err != nil { // from now on it remembers
		t.Fatal(err)
	}
	time.Sleep(ttl)
	redistest.CLI(t, master, "ACL", "SETUSER", "mallory", "on", ">sesame", "resetkeys", "resetchannels", "-@all", "+publish")
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{master}, Username: "mallory", Password: "sesame",
		DisableCache: true, ForceSingleClient: true, AlwaysRESP2: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	host, port, _ := net.SplitHostPort(his)
	tell := func() error {
		return c.Do(t.Context(), c.B().Publish().Channel("__sentinel__:hello").Message(
			strings.Join([]string{host, "1", strings.Repeat("ab", 20), "99", name, host, port, "99"}, ",")).Build()).Error()
	}
	address := "redis://" + sentinel + "?master_set=" + name
	locked(t, connected(t, address, ttl))
	if err := tell(); err == nil {
		t.Error("without a right to the channel he may publish there")
	}
	redistest.CLI(t, master, "ACL", "SETUSER", "mallory", "allchannels")
	storecheck.Eventually(t, "the sentinel to believe him", func() bool {
		return tell() == nil && containsAll(redistest.CLI(t, sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name), port)
	})
	locked(t, connected(t, address, ttl)) // beside the first one
}
