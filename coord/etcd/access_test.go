package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

// guarded starts etcd with the users root, "locks", who may use the default root, "reader", who may only read it, and
// "nobody", who may do nothing. Each password is the user's name.
func guarded(t testing.TB, opts ...servers.Option) (*servers.Cluster, *clientv3.Client) {
	t.Helper()
	cluster := servers.Etcd(t, append(opts, servers.Flags("--bcrypt-cost=4"))...)
	c := direct(t, cluster)
	ctx := within(t, time.Minute)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	end := clientv3.GetPrefixRangeEnd(defaultRoot)
	for role, may := range map[string]clientv3.PermissionType{
		"locks": clientv3.PermissionType(clientv3.PermReadWrite), "reader": clientv3.PermissionType(clientv3.PermRead),
	} {
		must(c.RoleAdd(ctx, role))
		must(c.RoleGrantPermission(ctx, role, defaultRoot, end, may))
	}
	must(c.RoleAdd(ctx, "nobody"))
	must(c.RoleAdd(ctx, "root"))
	for _, user := range []string{"root", "locks", "reader", "nobody"} {
		must(c.UserAdd(ctx, user, user))
		must(c.UserGrantRole(ctx, user, user))
	}
	must(c.AuthEnable(ctx))
	return cluster, c
}

func asUser(name string) clientv3.Config { return clientv3.Config{Username: name, Password: name} }

func TestPermissionOnTheRootIsEnough(t *testing.T) {
	cluster, _ := guarded(t)
	for _, retry := range []bool{false, true} {
		l := connectLinkWith(t, asUser("locks"), cluster.Addrs()...)
		s := open(t, l)
		e := entry("allowed", "W")
		if retry {
			e = try(e)
		}
		head, _ := join(t, s, e)
		reader := entry("allowed", "R")
		reader.Sight = driver.Sight{Ignore: []string{"R"}}
		me, ahead := join(t, s, reader)
		c := make(chan error, 1)
		go func() {
			_, err := me.Await(within(t, 20*time.Second), ahead)
			c <- err
		}()
		time.Sleep(50 * time.Millisecond)
		if err := head.Amend(within(t, 10*time.Second), "R", nil); err != nil {
			t.Fatal(err)
		}
		answers(t, c, 3*time.Second, nil, "await")
		if lines, err := s.d.Lines(within(t, 10*time.Second), ""); err != nil || len(lines) != 1 {
			t.Errorf("lines are %q, %v", lines, err)
		}
		leave(t, head, true)
		leave(t, me, false)
		if err := s.Close(within(t, 10*time.Second)); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestDeniedSaysWhatIsMissing(t *testing.T) {
	cluster, _ := guarded(t)
	for _, user := range []string{"reader", "nobody"} {
		d := connectLinkWith(t, asUser(user), cluster.Addrs()...).service(t)
		_, err := d.Open(within(t, 10*time.Second))
		if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), `readwrite on the prefix "turnwise/"`) {
			t.Errorf("%s opens: %v", user, err)
		}
	}
	d := connectLink(t, cluster.Addrs()...).service(t)
	if _, err := d.Open(within(t, 10*time.Second)); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "Username") {
		t.Errorf("without a user: %v", err)
	}

	_, err := Connect(within(t, 10*time.Second), clientv3.Config{Endpoints: cluster.Addrs(), Username: "locks", Password: "wrong"})
	if !errors.Is(err, coord.ErrDenied) || !strings.HasPrefix(err.Error(), "turnwise: etcd: connect to "+cluster.Addrs()[0]) {
		t.Errorf("connect with a wrong password: %v", err)
	}
	cfg := asUser("nobody")
	cfg.Endpoints = cluster.Addrs()
	if _, err = Connect(within(t, 10*time.Second), cfg); !errors.Is(err, coord.ErrDenied) || !strings.Contains(err.Error(), "turnwise/") ||
		strings.Count(err.Error(), coord.ErrDenied.Error()) != 1 || strings.Count(err.Error(), "etcd: ") != 1 {
		t.Errorf("connect without the permission: %v", err)
	}
}

func TestOtherRootNeedsItsOwnPermission(t *testing.T) {
	cluster, _ := guarded(t)
	d := connectLinkWith(t, asUser("locks"), cluster.Addrs()...).service(t, WithRoot("other"))
	if _, err := d.Open(within(t, 10*time.Second)); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "other/") {
		t.Errorf("open: %v", err)
	}
	d = connectLinkWith(t, asUser("locks"), cluster.Addrs()...).service(t, WithRoot("turnwise/team"))
	if _, err := d.Open(within(t, 10*time.Second)); err != nil {
		t.Errorf("a root below the permitted prefix: %v", err)
	}
}

// writer is a function as an io.Writer.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// A permission is taken away while a session is alive: every call reports that in time, and so does a waiter that begins to
// listen after that.
func TestPermissionTakenAway(t *testing.T) {
	cluster, _ := guarded(t)
	root := connectLinkWith(t, asUser("root"), cluster.Addrs()...).client
	var mu sync.Mutex
	var log strings.Builder
	s := open(t, connectLinkWith(t, asUser("locks"), cluster.Addrs()...), WithLogger(slog.New(slog.NewTextHandler(writer(func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		log.Write(b)
	}), nil))))
	me, _ := join(t, s, entry("taken away", "lock"))
	behind, ahead := join(t, s, entry("taken away", "lock"))
	if _, err := root.RoleRevokePermission(within(t, 10*time.Second), "locks", defaultRoot, clientv3.GetPrefixRangeEnd(defaultRoot)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Join(within(t, 10*time.Second), entry("taken away", "lock")); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("join: %v", err)
	}
	if err := me.Amend(within(t, 10*time.Second), "lock", nil); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("amend: %v", err)
	}
	if err := me.Leave(within(t, 10*time.Second), true); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("leave: %v", err)
	}
	mu.Lock()
	if n := strings.Count(log.String(), "a node stays until it may be taken away"); n != 1 {
		t.Errorf("it is told %d times that the departure was refused: %s", n, log.String())
	}
	mu.Unlock()
	if _, err := behind.Await(within(t, 10*time.Second), ahead); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("await: %v", err)
	}
	if _, err := s.d.Line(within(t, 10*time.Second), "taken away"); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("line: %v", err)
	}
	if _, err := root.RoleGrantPermission(within(t, 10*time.Second), "locks", defaultRoot, clientv3.GetPrefixRangeEnd(defaultRoot),
		clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	leave(t, behind, false)
	stays(t, root, "taken away", 0, 0) // the refused departure went on trying
}

// The permission is missing for a moment, in which waiters and holders begin to listen. They hear what happens after it.
func TestPermissionAwayForAMoment(t *testing.T) {
	cluster, _ := guarded(t)
	end := clientv3.GetPrefixRangeEnd(defaultRoot)
	admin := connectLinkWith(t, asUser("root"), cluster.Addrs()...).client
	revoke := func() {
		t.Helper()
		if _, err := admin.RoleRevokePermission(within(t, 10*time.Second), "locks", defaultRoot, end); err != nil {
			t.Fatal(err)
		}
	}
	grant := func() {
		t.Helper()
		if _, err := admin.RoleGrantPermission(within(t, 10*time.Second), "locks", defaultRoot, end,
			clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, connectLinkWith(t, asUser("locks"), cluster.Addrs()...))

	t.Run("a wait goes on", func(t *testing.T) {
		head, _ := join(t, s, entry("moment", "lock"))
		me, ahead := join(t, s, entry("moment", "lock"))
		revoke()
		c := waiter(t, me, ahead)
		time.Sleep(300 * time.Millisecond)
		grant()
		time.Sleep(2 * time.Second)
		leave(t, head, true)
		answers(t, c, 5*time.Second, nil, "await")
		leave(t, me, true)
	})
	t.Run("a holder hears of its removal", func(t *testing.T) {
		me, _ := join(t, s, entry("held", "lock"))
		ctx, stop := context.WithCancel(within(t, time.Minute))
		revoke()
		c := make(chan error, 1)
		go func() { // as the engine does
			for {
				err := me.Watch(ctx)
				if ctx.Err() != nil || errors.Is(err, driver.ErrRemoved) {
					c <- err
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		time.Sleep(2 * time.Second)
		grant()
		if _, err := admin.Delete(within(t, 10*time.Second), me.(*place).key); err != nil {
			t.Fatal(err)
		}
		answers(t, c, 5*time.Second, driver.ErrRemoved, "the holder")
		stop()
		leave(t, me, true)
	})
}

// While reading is denied, nobody can find out whether the node was made. As soon as reading is allowed again, the node is
// found and taken away.
func TestJoinWhoseOutcomeStaysOpenLeavesNothing(t *testing.T) {
	cluster, _ := guarded(t)
	root := connectLinkWith(t, asUser("root"), cluster.Addrs()...).client
	l := connectLinkWith(t, asUser("locks"), cluster.Addrs()...)
	s := open(t, l)
	end := clientv3.GetPrefixRangeEnd(defaultRoot)
	met := l.fate(drivertest.LostAfter, joinOf("open")).met
	var once sync.Once
	deny := func(_ string, req any) {
		if put, ok := req.(*pb.PutRequest); ok && ofSession(put.Key) {
			once.Do(func() {
				if _, err := root.RoleRevokePermission(context.Background(), "locks", defaultRoot, end); err != nil {
					t.Error(err)
				}
			})
		}
	}
	l.onSend.Store(&deny)
	if _, _, err := s.Join(within(t, 10*time.Second), entry("open", "lock")); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("join: %v", err)
	}
	<-met
	stays(t, root, "open", 1, 0)
	if _, err := root.RoleGrantPermission(within(t, 10*time.Second), "locks", defaultRoot, end,
		clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	stays(t, root, "open", 0, 0)
}

// etcd #11954: the token of a watch stream expires, and watches that are then asked for on it are refused.
func TestWaitersOutliveTheToken(t *testing.T) {
	cluster, _ := guarded(t, servers.Flags("--auth-token-ttl=1"))
	s := open(t, connectLinkWith(t, asUser("locks"), cluster.Addrs()...))
	for range 2 {
		head, _ := join(t, s, entry("token", "lock"))
		me, ahead := join(t, s, entry("token", "lock"))
		c := waiter(t, me, ahead)
		time.Sleep(2500 * time.Millisecond)
		leave(t, head, true)
		answers(t, c, 5*time.Second, nil, "await")
		leave(t, me, true)
	}
}

// A service whose disk quota is used up accepts no puts. The holder can still leave, and the next one is let in.
func TestDepartureFromFullService(t *testing.T) {
	cluster := servers.Etcd(t, servers.Flags("--quota-backend-bytes=16777216"))
	root := direct(t, cluster)
	s := open(t, connectLink(t, cluster.Addrs()...))
	head, _ := join(t, s, entry("full", "lock"))
	me, ahead := join(t, s, entry("full", "lock"))
	c := waiter(t, me, ahead)
	ctx := within(t, time.Minute)
	junk := strings.Repeat("x", 1<<20)
	var err error
	for err == nil {
		_, err = root.Put(ctx, "junk", junk)
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	if _, _, err := s.Join(ctx, entry("full", "lock")); !errors.Is(err, rpctypes.ErrNoSpace) || !strings.Contains(err.Error(), "defragmented") {
		t.Errorf("join: %v", err)
	}
	leave(t, head, true)
	answers(t, c, 5*time.Second, nil, "await")
	leave(t, me, true)
}

// Whenever a role is changed, requests under way are refused because they were checked against the old roles.
func TestRolesMayChangeUnderLoad(t *testing.T) {
	cluster, _ := guarded(t)
	root := connectLinkWith(t, asUser("root"), cluster.Addrs()...).client
	s := open(t, connectLinkWith(t, asUser("locks"), cluster.Addrs()...))
	ctx := within(t, time.Minute)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				me, _, err := s.Join(ctx, entry(fmt.Sprint("roles ", i), "lock"))
				if err == nil {
					err = me.Leave(ctx, true)
				}
				if err != nil {
					t.Errorf("with roles that change: %v", err)
					return
				}
			}
		})
	}
	for i := range 40 {
		if _, err := root.RoleGrantPermission(ctx, "nobody", fmt.Sprint("elsewhere ", i), "", clientv3.PermissionType(clientv3.PermRead)); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	all.Wait()
	if _, err := s.d.Line(ctx, "roles 0"); err != nil {
		t.Error(err)
	}
	for _, refused := range []error{rpctypes.ErrAuthOldRevision, rpctypes.ErrNotLeader, rpctypes.ErrNotCapable} {
		if classify(refused) != passing {
			t.Errorf("%v is not taken for trouble that passes", refused)
		}
	}
}

func TestAServiceThatIsOpenToAllIsWarnedAbout(t *testing.T) {
	cluster, _ := guarded(t)
	for name, c := range map[string]struct {
		cfg  clientv3.Config
		warn int
	}{
		"open":         {clientv3.Config{Endpoints: servers.Etcd(t, servers.Shared()).Addrs()}, 1},
		"guarded":      {asUser("locks"), 0},
		"guarded, all": {asUser("root"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cfg.Endpoints == nil {
				c.cfg.Endpoints = cluster.Addrs()
			}
			var said bytes.Buffer
			client, err := Connect(within(t, 20*time.Second), c.cfg, WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
			if err != nil {
				t.Fatal(err)
			}
			client.Close()
			if n := strings.Count(said.String(), "whoever reaches the service may take and end these locks"); n != c.warn {
				t.Errorf("it warned %d times, want %d: %s", n, c.warn, said.String())
			}
		})
	}
}
