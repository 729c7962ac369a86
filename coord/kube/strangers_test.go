package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// neighbours are a user of turnwise, one, and a stranger, two, who has these rights on leases and no others.
type neighbours struct {
	*servers.Cluster
	opts     []Option
	client   *coord.Client
	stranger *Store // not opened: it sends what it is told to
}

func neighbour(t *testing.T, verbs ...string) *neighbours {
	t.Helper()
	c := servers.Kube(t, servers.Shared())
	allow(t, c, "one", allVerbs...)
	allow(t, c, "two", verbs...)
	root := WithRoot(freshRoot())
	opts := append(as(t, c, 0, servers.KubeToken("one")), root, WithTTL(2*time.Second), WithLongestTTL(2*time.Second), WithLogger(logger(t)))
	n := &neighbours{Cluster: c, opts: opts, client: connected(t, opts)}
	n.stranger = raw(t, append(as(t, c, 0, servers.KubeToken("two")), root))
	return n
}

func connected(t *testing.T, opts []Option) *coord.Client {
	t.Helper()
	client, err := Connect(within(t, 60*time.Second), "default", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// raw is a store that has not been opened.
func raw(t *testing.T, opts []Option) *Store {
	t.Helper()
	c, err := configure(storekit.ToConnect, opts)
	if err != nil {
		t.Fatal(err)
	}
	base, err := baseOf(c.access.server, "default")
	if err != nil {
		t.Fatal(err)
	}
	way, err := newSender(c.access)
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{config: c, base: base, client: &http.Client{Transport: way}, hangUp: way.close}
	s.life = driverkit.NewLife(context.Background())
	t.Cleanup(func() { s.Close() })
	return s
}

// may sends a request as the stranger, and fails the test if it is refused for another reason than that he lacks the right.
func (n *neighbours) may(t *testing.T, allowed bool, q request, out any) {
	t.Helper()
	err := n.stranger.ask(within(t, 10*time.Second), q, out)
	if denied := errors.Is(n.stranger.explain(err), driver.ErrDenied); err != nil && !denied || denied == allowed {
		t.Errorf("%s %s: %v", q.method, q.name, err)
	}
}

func (n *neighbours) lock(t *testing.T, c *coord.Client, name string) *coord.Hold {
	t.Helper()
	h, err := mutex.New(c, name).Lock(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const lineKey = "line/orders"

func TestAStrangerWhoMayReadLeases(t *testing.T) {
	n := neighbour(t, "get", "list", "watch")
	h := n.lock(t, n.client, "orders")
	var l lease
	name := n.stranger.nameOf(lineKey)
	n.may(t, true, request{method: http.MethodGet, name: name}, &l)
	if l.Spec.Holder == "" || l.Metadata.Annotations[keyNote] != lineKey {
		t.Errorf("he sees %+v", l)
	}
	n.may(t, true, request{method: http.MethodGet}, &leases{})
	n.may(t, false, request{method: http.MethodPut, name: name, body: &l}, nil)
	n.may(t, false, deletion(name, stand{uid: l.Metadata.UID}), nil)
	l.Metadata = metadata{Name: n.stranger.root + "-other"}
	n.may(t, false, request{method: http.MethodPost, body: &l}, nil)
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

func TestAStrangerWhoMayCreateLeases(t *testing.T) {
	n := neighbour(t, "create")
	h := n.lock(t, n.client, "orders")
	spoilt := &lease{APIVersion: group, Kind: "Lease", Metadata: metadata{Name: n.stranger.nameOf("line/fresh"),
		Annotations: map[string]string{keyNote: "line/fresh", versionNote: "nonsense"}}}
	n.may(t, true, request{method: http.MethodPost, body: spoilt}, nil)
	_, err := mutex.New(n.client, "fresh").Lock(within(t, 30*time.Second))
	if !errors.Is(err, coord.ErrDenied) || !strings.Contains(err.Error(), "fresh") {
		t.Errorf("lock: %v", err)
	}
	// He tells what he likes to whoever listens. It is a hint.
	n.may(t, true, request{method: http.MethodPost, body: &lease{APIVersion: group, Kind: "Lease", Metadata: metadata{Name: n.stranger.root + "-told",
		Labels: map[string]string{n.stranger.labelOf("session/x"): ""}, Annotations: map[string]string{notesNote: "nonsense"}}}}, nil)
	if err := h.Err(); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

// tied is an empty lease as a stranger makes it, who may create: when it is deleted it waits for him.
func tied(s *Store, key string) *lease {
	l := s.compose(&register.Swap{Key: key}, stand{})
	l.Metadata.Finalizers = []string{"mallory.example/wait"}
	return l
}

// Who lists has an empty lease deleted, and it waits. The next write makes it wait no more: then the server says that it has written,
// and deletes it.
func writesToWhatIsGoing(t *testing.T, stranger *Store, one, other *Store) {
	t.Helper()
	for _, key := range []string{"line/orders", "sweeper"} {
		put(t, one, register.Item{Key: "warm" + key}, "1")
		if err := stranger.ask(within(t, 20*time.Second), request{method: http.MethodPost, body: tied(stranger, key)}, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := other.List(within(t, 20*time.Second), "", func(register.Item) bool { return true }); err != nil {
				t.Error(err)
			}
			it := put(t, one, read(t, one, key), "2")
			if is := read(t, other, key); is.Version != it.Version {
				t.Errorf("%s: what was written is not there: %+v", key, is)
			}
			var l lease
			if err := other.ask(within(t, 20*time.Second), request{method: http.MethodGet, name: other.nameOf(key)}, &l); err != nil || l.Metadata.isTied() {
				t.Errorf("%s: %+v, %v", key, l.Metadata, err)
			}
		}
	}
}

func TestAWriteToALeaseThatIsGoingIsNotLost(t *testing.T) {
	f := newFake(t)
	opts := append(f.options(t), WithRoot(freshRoot()))
	writesToWhatIsGoing(t, raw(t, opts), opened(t, opts...), opened(t, opts...))
}

func TestAStrangerWhoMakesALeaseThatWaitsForHim(t *testing.T) {
	n := neighbour(t, "create")
	opts := append(as(t, n.Cluster, 0, servers.KubeToken("one")), WithRoot(n.stranger.root))
	writesToWhatIsGoing(t, n.stranger, opened(t, opts...), opened(t, opts...))
}

// He makes the mark, so that it goes with something of his when he likes, or never.
func TestAMarkThatAStrangerMadeIsTiedToNothing(t *testing.T) {
	f := newFake(t)
	opts := append(f.options(t), WithRoot(freshRoot()))
	stranger := raw(t, opts)
	mark := stranger.newMark()
	mark.Metadata.Finalizers = []string{"mallory.example/wait"}
	mark.Metadata.Owners = []json.RawMessage{json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","name":"his","uid":"1"}`)}
	ask := func(q request, out any) {
		t.Helper()
		if err := stranger.ask(within(t, 20*time.Second), q, out); err != nil {
			t.Fatal(err)
		}
	}
	ask(request{method: http.MethodPost, body: mark}, nil)
	s := opened(t, opts...)
	var l lease
	ask(request{method: http.MethodGet, name: s.markName()}, &l)
	if l.Metadata.isTied() || l.Metadata.Annotations[layoutKey] != layout {
		t.Errorf("the mark is %+v", l.Metadata)
	}
	// One that is going already makes room for the next.
	ask(deletion(s.markName(), stand{uid: l.Metadata.UID}), nil)
	ask(request{method: http.MethodPost, body: mark}, &l)
	ask(deletion(s.markName(), stand{uid: l.Metadata.UID}), nil)
	before := l.Metadata.UID
	again := opened(t, opts...)
	ask(request{method: http.MethodGet, name: again.markName()}, &l)
	if l.Metadata.UID == before || !l.Metadata.Going.IsZero() {
		t.Errorf("the mark is %+v", l.Metadata)
	}
}

func TestAStrangerWhoMayUpdateLeases(t *testing.T) {
	n := neighbour(t, "get", "update")
	h := n.lock(t, n.client, "orders")
	var l lease
	name := n.stranger.nameOf(lineKey)
	n.may(t, true, request{method: http.MethodGet, name: name}, &l)
	l.Metadata.Annotations[versionNote] = "0123456789abcdef"
	l.Metadata.Annotations[valueNote] = ""
	l.APIVersion, l.Kind = group, "Lease"
	n.may(t, true, request{method: http.MethodPut, name: name, body: &l}, nil)
	if _, err := mutex.New(n.client, "orders").Lock(within(t, 5*time.Second)); err == nil {
		t.Error("somebody was let in beside the holder")
	}
	_ = h.Release()
}

func TestAStrangerWhoMayDeleteLeases(t *testing.T) {
	n := neighbour(t, "get", "delete")
	h := n.lock(t, n.client, "orders")
	other := connected(t, n.opts)
	n.may(t, true, request{method: http.MethodDelete, name: n.stranger.markName()}, nil)
	begun := time.Now()
	next := n.lock(t, other, "another")
	if took := time.Since(begun); took < time.Second {
		t.Errorf("whoever is new was let in after %v", took)
	}
	_ = next.Release()
	n.may(t, true, request{method: http.MethodDelete, name: n.stranger.nameOf(lineKey)}, nil)
	storecheck.Eventually(t, "the holder hears of it", func() bool { return h.Err() != nil })
}

// A right that is lacking is said when the store is opened, and not when somebody holds.
func TestWhichRightIsLacking(t *testing.T) {
	c := servers.Kube(t, servers.Shared())
	allow(t, c, "one", allVerbs...)
	opened(t, as(t, c, 0, servers.KubeToken("one"))...).Close() // makes the mark
	for _, verb := range []string{"get", "update", "delete"} {
		var rest []string
		for _, v := range allVerbs {
			if v != verb {
				rest = append(rest, v)
			}
		}
		allow(t, c, "one", rest...)
		storecheck.Eventually(t, verb+" is refused", func() bool {
			s, err := Open(within(t, 10*time.Second), "default", as(t, c, 0, servers.KubeToken("one"))...)
			if err == nil {
				s.Close()
				return false
			}
			storecheck.Refused(t, err, driver.ErrDenied, "cannot "+verb)
			return true
		})
	}
	_, err := Open(within(t, 10*time.Second), "nowhere", as(t, c, 0, servers.KubeAdmin)...)
	storecheck.Refused(t, err, driver.ErrMissing, "kubectl create namespace")
	_, err = Open(within(t, 10*time.Second), "default", as(t, c, 0, "wrong-secret")...)
	storecheck.Refused(t, err, driver.ErrDenied, "does not know who we are")
}
