package kube

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// onBoth runs a test on the fake, and on the real one if that is there.
func onBoth(t *testing.T, test func(t *testing.T, opts []Option)) {
	t.Run("fake", func(t *testing.T) { test(t, newFake(t).options(t)) })
	t.Run("real", func(t *testing.T) {
		test(t, append(as(t, servers.Kube(t, servers.Shared()), 0, servers.KubeAdmin), WithRoot(freshRoot())))
	})
}

func freshRoot() string {
	v := register.NewVersion()
	return "r" + hex.EncodeToString(v[:])
}

// An update with the version of a lease that was deleted meanwhile makes that anew, unless it names the uid.
func TestALateUpdateBringsNothingBack(t *testing.T) {
	onBoth(t, func(t *testing.T, opts []Option) {
		a, b := opened(t, opts...), opened(t, opts...)
		it := put(t, a, register.Item{Key: "k"}, "one")
		if _, err := b.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version}); err != nil {
			t.Fatal(err)
		}
		cur, err := a.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion(), Value: []byte("two")})
		if !errors.Is(err, register.ErrConflict) || !cur.Version.IsZero() {
			t.Errorf("swap: %+v, %v", cur, err)
		}
		if got := read(t, b, "k"); !got.Version.IsZero() {
			t.Errorf("%q is there again", got.Value)
		}
	})
}

func TestALateDeletionTakesNothingElseAway(t *testing.T) {
	onBoth(t, func(t *testing.T, opts []Option) {
		a, b := opened(t, opts...), opened(t, opts...)
		it := put(t, a, register.Item{Key: "k"}, "one")
		put(t, b, it, "two")
		if _, err := a.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version}); !errors.Is(err, register.ErrConflict) {
			t.Errorf("swap: %v", err)
		}
		if got := read(t, b, "k"); string(got.Value) != "two" {
			t.Errorf("%q is there", got.Value)
		}
	})
}

// Somebody who copies a lease, as a backup of objects does, makes no register twice.
func TestACopyOfALeaseIsNoRegister(t *testing.T) {
	onBoth(t, func(t *testing.T, opts []Option) {
		s := opened(t, opts...)
		put(t, s, register.Item{Key: "k"}, "one")
		var l lease
		ctx := within(t, 10*time.Second)
		if err := s.ask(ctx, request{method: http.MethodGet, name: s.nameOf("k")}, &l); err != nil {
			t.Fatal(err)
		}
		l.APIVersion, l.Kind = group, "Lease"
		l.Metadata = metadata{Name: "copy-of-it", Labels: l.Metadata.Labels, Annotations: l.Metadata.Annotations}
		if err := s.ask(ctx, request{method: http.MethodPost, body: &l}, nil); err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := s.List(ctx, "", func(register.Item) bool { n++; return true }); err != nil || n != 1 {
			t.Errorf("%d are listed, %v", n, err)
		}
		if err := s.ask(ctx, request{method: http.MethodDelete, name: "copy-of-it", body: map[string]string{}}, nil); err != nil {
			t.Error(err)
		}
	})
}

// Who may create leases can spoil a line, but keeps nobody from seeing the others.
func TestALeaseThatIsSpoiltIsListedAsNobodys(t *testing.T) {
	onBoth(t, func(t *testing.T, opts []Option) {
		s := opened(t, opts...)
		put(t, s, register.Item{Key: "line/orders"}, "ours")
		spoilt := &lease{APIVersion: group, Kind: "Lease", Metadata: metadata{Name: s.nameOf("line/fresh"),
			Labels:      map[string]string{rootLabel: s.root, kindLabel: "line"},
			Annotations: map[string]string{keyNote: "line/fresh", versionNote: "nonsense"}}}
		if err := s.ask(within(t, 10*time.Second), request{method: http.MethodPost, body: spoilt}, nil); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		if err := s.List(within(t, 10*time.Second), "line/", func(it register.Item) bool { found[it.Key] = string(it.Value); return true }); err != nil {
			t.Error(err)
		}
		if len(found) != 2 || found["line/orders"] != "ours" {
			t.Errorf("listed: %q", found)
		}
		if _, err := s.Read(within(t, 10*time.Second), "line/fresh"); !errors.Is(err, driver.ErrDenied) {
			t.Errorf("read: %v", err)
		}
	})
}

// What an emptied register leaves behind, if the one who emptied it dies halfway, is taken away by who lists, and in nobody's
// way until then.
func TestAnEmptyLeaseIsTakenAwayByWhoLists(t *testing.T) {
	onBoth(t, func(t *testing.T, opts []Option) {
		s := opened(t, opts...)
		ctx := within(t, 20*time.Second)
		for _, key := range []string{"a", "b"} {
			if err := s.ask(ctx, request{method: http.MethodPost, body: s.compose(&register.Swap{Key: key}, stand{})}, nil); err != nil {
				t.Fatal(err)
			}
		}
		put(t, s, register.Item{Key: "a"}, "one")
		n := 0
		if err := s.List(ctx, "", func(register.Item) bool { n++; return true }); err != nil || n != 1 {
			t.Errorf("%d are listed, %v", n, err)
		}
		if err := s.ask(ctx, request{method: http.MethodGet, name: s.nameOf("b")}, &lease{}); !isStatus(err, http.StatusNotFound) {
			t.Errorf("the empty one: %v", err)
		}
	})
}

// kubectl shows whose a line is.
func TestTheHolderIsShown(t *testing.T) {
	onBoth(t, func(t *testing.T, opts []Option) {
		s := opened(t, opts...)
		w := register.Swap{Key: "line/a", Next: register.NewVersion(), Value: []byte("x"), Whose: "host/7"}
		ctx := within(t, 10*time.Second)
		if _, err := s.Swap(ctx, w); err != nil {
			t.Fatal(err)
		}
		var l lease
		if err := s.ask(ctx, request{method: http.MethodGet, name: s.nameOf(w.Key)}, &l); err != nil || l.Spec.Holder != "host/7" {
			t.Errorf("the holder is %q, %v", l.Spec.Holder, err)
		}
	})
}

// Open tries to delete the mark, and does not do it.
func TestToTryARightChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, opts []Option) {
		s := opened(t, opts...)
		before, err := s.Memory(within(t, 10*time.Second))
		opened(t, opts...)
		after, e := s.Memory(within(t, 10*time.Second))
		if err != nil || e != nil || before.ID != after.ID {
			t.Errorf("the memory was %+v, %v, and is %+v, %v", before, err, after, e)
		}
		found, err := s.known.Current()
		var mark lease
		if err == nil {
			err = s.ask(within(t, 10*time.Second), request{method: http.MethodGet, name: s.markName()}, &mark)
		}
		if err != nil || mark.Metadata.UID != found.uid {
			t.Errorf("the mark is %q, and was %q: %v", mark.Metadata.UID, found.uid, err)
		}
	})
}

// An administrator has put a backup of etcd back, with and without raised revisions.
func TestWhoHasSeenMoreThanTheBackupNotices(t *testing.T) {
	for name, bump := range map[string]int{"as it was": 0, "with raised revisions": 1000} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			opts := append(f.options(t), WithLongestTTL(5*time.Second))
			s, bystander := opened(t, opts...), opened(t, opts...)
			it := put(t, s, register.Item{Key: "k"}, "old")
			putBack := f.keep()
			put(t, s, it, "new")
			before, err := s.Memory(within(t, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			putBack(bump)
			begun := time.Now()
			look := func() error { _, err := s.Read(within(t, time.Second), "k"); return err }
			if bump == 0 { // also by what was never seen
				look = func() error {
					_, err := s.Swap(within(t, time.Second), register.Swap{Key: "l", Next: register.NewVersion(), Value: []byte("x")})
					return err
				}
			}
			storecheck.Eventually(t, "it is noticed", func() bool {
				err := look()
				if err == nil {
					t.Fatal("it goes on")
				}
				return errors.Is(err, register.ErrForgot)
			})
			if _, err := s.Read(within(t, time.Second), "k"); !errors.Is(err, register.ErrForgot) {
				t.Errorf("it answers before it was asked for its memory: %v", err)
			}
			for _, s := range []*Store{s, bystander} {
				mem, err := s.Memory(within(t, 10*time.Second))
				if err != nil || mem.ID == before.ID || mem.For > time.Since(begun) {
					t.Errorf("the memory is %+v, %v, and was %+v", mem, err, before)
				}
			}
			if got := read(t, s, "k"); string(got.Value) != "old" {
				t.Errorf("it reads %q", got.Value)
			}
		})
	}
}

// A list that takes longer than the server keeps what it began with goes on from what is there now.
func TestAListThatTakesLongGoesOn(t *testing.T) {
	f := newFake(t)
	s := opened(t, f.options(t)...)
	for i := range page + 10 {
		put(t, s, register.Item{Key: string(rune('a'+i%26)) + string(rune('a'+i/26))}, "x")
	}
	f.mu.Lock()
	f.expire = true
	f.mu.Unlock()
	n := 0
	if err := s.List(within(t, 10*time.Second), "", func(register.Item) bool { n++; return true }); err != nil || n != page+10 {
		t.Errorf("%d are listed, %v", n, err)
	}
}

// The mark was made when the clock of the API server was an hour ahead, and that was put right. By its clock it will be made in an hour.
func TestAClockThatWasPutRightKeepsNobody(t *testing.T) {
	f := newFake(t)
	opts := f.options(t)
	f.mu.Lock()
	f.ahead = time.Hour
	f.mu.Unlock()
	s := opened(t, opts...)
	if m, err := s.Memory(within(t, 10*time.Second)); err != nil || m.For > 0 {
		t.Fatalf("the memory is %+v, %v, so this shows nothing", m, err)
	}
	f.mu.Lock()
	f.ahead = 0
	f.mu.Unlock()
	c := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
		return Connect(ctx, "default", append(opts, WithTTL(4*time.Second), WithLongestTTL(4*time.Second))...)
	})
	if _, err := mutex.New(c, "a").Lock(within(t, 30*time.Second)); err != nil {
		t.Errorf("lock: %v", err)
	}
}
