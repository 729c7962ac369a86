package kube

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// skewed is the way of a process whose wall clock is ahead of others.
type skewed struct {
	*Store
	ahead time.Duration
}

func (s skewed) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if strings.HasPrefix(w.Key, "session/") && len(w.Value) > 0 {
		_, n := binary.Uvarint(w.Value[1:])
		at, m := binary.Varint(w.Value[1+n:])
		v := binary.AppendVarint(append([]byte(nil), w.Value[:1+n]...), at+s.ahead.Milliseconds())
		w.Value = append(v, w.Value[1+n+m:]...)
	}
	return s.Store.Swap(ctx, w)
}

// He reads a session that lives, and makes a lease which says that this machine has seen it stand still for an hour. The holder's clock is a
// little ahead, so it looks dead to who tries right after a renewal.
func TestAStrangerWhoMayGetAndCreateEndsNoHold(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		opts := newFake(t).options(t)
		saysThatAHolderIsDead(t, opts, raw(t, opts))
	})
	t.Run("real", func(t *testing.T) {
		c := servers.Kube(t, servers.Shared())
		allow(t, c, "one", allVerbs...)
		allow(t, c, "two", "get", "create")
		root := WithRoot(freshRoot())
		saysThatAHolderIsDead(t, append(as(t, c, 0, servers.KubeToken("one")), root), raw(t, append(as(t, c, 0, servers.KubeToken("two")), root)))
	})
}

func saysThatAHolderIsDead(t *testing.T, opts []Option, stranger *Store) {
	const ttl = 8 * time.Second
	s := opened(t, append(opts, WithLongestTTL(ttl))...)
	holder := coord.NewClient(register.New(skewed{s, 500 * time.Millisecond}, register.WithTTL(ttl), register.WithLongestTTL(ttl)))
	t.Cleanup(func() { holder.Close() })
	other := joined(t, ttl, opts...)
	turn(t, other, "warm")
	h, err := mutex.New(holder, "orders").Lock(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	session, _, _ := strings.Cut(h.Node().ID, "-")
	version := func() string {
		var l lease
		if err := stranger.ask(within(t, 10*time.Second), request{method: http.MethodGet, name: stranger.nameOf("session/" + session)}, &l); err != nil {
			t.Fatal(err)
		}
		return l.Metadata.Annotations[versionNote]
	}
	was := version()
	for was == version() { // he is quick after a renewal
		time.Sleep(10 * time.Millisecond)
	}
	value, err := hex.DecodeString(version())
	if err != nil {
		t.Fatal(err)
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	clocks, _ := os.Readlink("/proc/self/ns/time")
	machine := sha256.Sum256(append(boot, clocks...))
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		t.Fatal(err)
	}
	value = append(value, machine[:16]...)
	value = binary.BigEndian.AppendUint64(value, uint64(time.Duration(up.Nano())-time.Hour))
	value = binary.BigEndian.AppendUint64(value, uint64(time.Now().Add(-time.Hour).UnixNano()))
	his := stranger.compose(&register.Swap{Key: "suspect/" + session, Next: register.NewVersion(), Value: value}, stand{})
	if err := stranger.ask(within(t, 10*time.Second), request{method: http.MethodPost, body: his}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := mutex.New(other, "orders").TryLock(within(t, 10*time.Second)); !errors.Is(err, coord.ErrBusy) {
		t.Errorf("somebody was let in: %v", err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}
