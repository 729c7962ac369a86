package etcd

import (
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

var layouts = []layout{{root: "turnwise/"}, {root: "a/b/"}, {names: Stock}, {root: "x/", names: Stock}, {root: "/", names: Stock, tail: "/"}}

func TestKeysTellWhatTheyWereMadeOf(t *testing.T) {
	for _, l := range layouts {
		for _, kind := range []string{"lock", "lead", "R", "W", "S3of8", strings.Repeat("k", driver.MaxKind)} {
			for _, line := range []string{"a", "a/b", "lock", "session", "a-b@c", "1f-2"} {
				key := l.contender(line, kind, 0x694d71ddacfda227, 17)
				kv := &mvccpb.KeyValue{Key: []byte(key), CreateRevision: 42, ModRevision: 42, Lease: 0x694d71ddacfda227}
				n, ok := l.node(line, kv)
				if !ok || n.Kind != kind || n.Line != line || n.Token != 42 {
					t.Errorf("%q is taken for %+v, %v", key, n, ok)
				}
				if of, ok := l.lineOf(kv); !ok || of != line {
					t.Errorf("%q is taken for a key of line %q, %v", key, of, ok)
				}
				if k, rev, ok := parseID(n.ID); !ok || k != key || rev != 42 {
					t.Errorf("%q is taken for %q at %d, %v", n.ID, k, rev, ok)
				}
			}
		}
	}
}

func TestIsolatedLinesHoldNothingElse(t *testing.T) {
	l := layout{root: "turnwise/"}
	prefix := l.line("a")
	for _, other := range []string{
		l.contender("a/b", "lock", 1, 1), l.contender("ab", "lock", 1, 1), l.epoch(1), l.contender("a/lock", "lock", 1, 1),
	} {
		if strings.HasPrefix(other, prefix) {
			t.Errorf("%q is within %q", other, prefix)
		}
	}
	for _, foreign := range []string{
		"", "x", "lock", "lock/", "lock/1", "lock/1-", "lock/1-0", "lock/1-01", "lock/0-1", "lock/01-1", "lock/x-1", "lock/1-1/1", "lo.ck/1-1",
		"/1-1", "lock/1-1-1", "lock/1--1", "lock/A-1", "lock/ffffffffffffffff-1", strings.Repeat("k", driver.MaxKind+1) + "/1-1",
	} {
		if p, ok := l.parse(foreign); ok {
			t.Errorf("%q is taken for a contender: %+v", foreign, p)
		}
	}
}

// Whatever stands below a name counts for etcdctl and the package concurrency, so it must count here.
func TestEverythingBelowAStockNameIsAContender(t *testing.T) {
	l := layout{names: Stock}
	for key, want := range map[string]origin{
		"a/694d71ddacfda227":            {kind: "lock"},
		"a/694d71ddacfda227-1":          {"lock", 0x694d71ddacfda227},
		"a/694d71ddacfda227-1-R":        {"R", 0x694d71ddacfda227},
		"a/b/694d71ddacfda227":          {kind: "lock"},
		"a/anything":                    {kind: "lock"},
		"a/anything-1":                  {kind: "lock"},
		"a/694d71ddacfda227-1-R-1":      {kind: "lock"},
		"a/694d71ddacfda227-1-":         {kind: "lock"},
		"a/694d71ddacfda227-0001":       {kind: "lock"},
		"a/00694d71ddacfda227-1":        {kind: "lock"},
		"a/turnwise/session/1/epoch":    {kind: "lock"},
		"a/ffffffffffffffffffffff-1":    {kind: "lock"},
		"a/694d71ddacfda227-1-" + "lo:": {kind: "lock"},
	} {
		got, ok := l.parse(strings.TrimPrefix(key, l.line("a")))
		if !ok || got != want {
			t.Errorf("%q is taken for %+v, %v; want %+v", key, got, ok, want)
		}
	}
	if strings.HasPrefix(l.epoch(1), "a") || l.epoch(1)[0] != '/' {
		t.Errorf("a session's key, %q, may be below a line's name", l.epoch(1))
	}
}

func TestLookPassesOverIgnoredKinds(t *testing.T) {
	l := layout{root: "turnwise/"}
	in := func(key string, sight driver.Sight) bool {
		for _, r := range l.ranges(view{"a", sight}) {
			if key >= r.from && key < r.to {
				return true
			}
		}
		return false
	}
	for _, ignore := range [][]string{nil, {}, {"R"}, {"R", "W"}, {"W", "R", "R"}, {"A", "z", "0"}, {"R", "RR", "Q"}} {
		sight := driver.Sight{Ignore: ignore}
		for _, kind := range []string{"R", "W", "RR", "Q", "lock", "A", "z", "0", "S1of2"} {
			key := l.contender("a", kind, 7, 7)
			if got := in(key, sight); got != sight.Sees(kind) {
				t.Errorf("ignoring %q, a contender of kind %s is read: %v", ignore, kind, got)
			}
		}
	}
}

func TestAmendedKindIsInTheValue(t *testing.T) {
	l := layout{root: "turnwise/"}
	o := driver.Owner{Host: "h", PID: 1, Label: "turnwise kind R\n"}
	for _, data := range []string{"", "turnwise kind R\n", "x\ny"} {
		for _, kind := range []string{"W", "R"} {
			n := driver.Node{Kind: "W"}
			l.decodeValue(&n, []byte(l.encodeValue("W", &driver.Node{Kind: kind, Owner: o, Data: []byte(data)})))
			if n.Kind != kind || string(n.Data) != data || n.Owner.Label != o.Label {
				t.Errorf("kind %s, data %q became %+v", kind, data, n)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "lock/1-1", "lock/694d71ddacfda227-17", "1-1-R", "lock//1-1", "@", "a@1", "a@-1", "\xff/\xff-\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, l := range layouts {
			if p, ok := l.parse(s); ok {
				if !driver.ValidKind(p.kind) {
					t.Errorf("%q has the kind %q", s, p.kind)
				}
				if p.lease < 0 || l.names == Isolated && p.lease == 0 {
					t.Errorf("%q has the lease %d", s, p.lease)
				}
			}
			kv := &mvccpb.KeyValue{Key: []byte(l.root + s), Lease: 1, CreateRevision: 1}
			if line, ok := l.lineOf(kv); ok && l.names == Isolated && coord.CheckName(line) == nil {
				if _, ok := l.node(line, kv); !ok {
					t.Errorf("%q is in line %q and no contender of it", kv.Key, line)
				}
			}
			n := driver.Node{Kind: "lock"}
			l.decodeValue(&n, []byte(s))
			if !driver.ValidKind(n.Kind) {
				t.Errorf("the value %q has the kind %q", s, n.Kind)
			}
		}
		if key, rev, ok := parseID(s); ok && nodeID(key, rev) != s {
			t.Errorf("%q is taken for %q at %d", s, key, rev)
		}
	})
}

// Every contender is found again by its key, whatever its line is called, and no two lines share a key.
func FuzzLineNames(f *testing.F) {
	f.Add("a", "a/b", uint64(1), int64(1))
	f.Add("lock", "session", uint64(0x694d71ddacfda227), int64(17))
	f.Add("a/lock/1-1", "a", uint64(1), int64(1))
	f.Fuzz(func(t *testing.T, a, b string, lease uint64, n int64) {
		if coord.CheckName(a) != nil || coord.CheckName(b) != nil || lease == 0 || lease > 1<<63-1 || n <= 0 {
			t.Skip()
		}
		l := layout{root: "turnwise/"}
		key := l.contender(a, "lock", clientv3.LeaseID(lease), n)
		kv := &mvccpb.KeyValue{Key: []byte(key), CreateRevision: 1}
		if line, ok := l.lineOf(kv); !ok || line != a {
			t.Errorf("%q is taken for a key of line %q", key, line)
		}
		if a != b && strings.HasPrefix(key, l.line(b)) {
			t.Errorf("%q of line %q is within line %q", key, a, b)
		}
	})
}
