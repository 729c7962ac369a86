//go:build unix

package nats

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// A reload takes away the right to hear, and with it the subscription, and the next one gives it back. (Nobody was told anything as long as
// the connection lasted.)
func TestWhoMayHearAgainIsTold(t *testing.T) {
	t.Parallel()
	const all = `subscribe: [ "turnwise.told.>", "turnwise.inbox.>" ]`
	const less = `subscribe: [ "turnwise.inbox.>" ]`
	m := servers.NATS(t, servers.Config(`authorization { users: [ { user: turnwise, password: ours, permissions: { publish: ">", `+all+` } } ] }`)).Member(0)
	s := storecheck.Opened(t, func(ctx context.Context) (*Store, error) { return Open(ctx, "nats://turnwise:ours@"+m.Addr()) })
	ears := make(chan []byte, 100)
	stop, err := s.Listen(within(t, 10*time.Second), "t", func(note []byte) { ears <- note })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	isTold := func() {
		t.Helper()
		storecheck.Eventually(t, "he is told", func() bool {
			_, err := s.Swap(t.Context(), register.Swap{Key: "k" + newID(), Next: register.NewVersion(), Value: []byte("v"), Notes: []register.Note{{Topic: "t", Text: []byte("x")}}})
			if err != nil {
				t.Log(err)
			}
			select {
			case note := <-ears:
				return note != nil
			case <-time.After(100 * time.Millisecond):
				return false
			}
		})
	}
	isTold()
	for _, change := range [][2]string{{all, less}, {less, all}} {
		file := filepath.Join(m.Dir(), "nats.conf")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(m.Pid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	isTold()
}
