package storecheck

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// Connected connects a client, and closes it with the test.
func Connected(t testing.TB, connect func(ctx context.Context) (*coord.Client, error)) *coord.Client {
	t.Helper()
	c, err := connect(Within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Locked takes a lock, and waits for it if need be.
func Locked(t testing.TB, c *coord.Client, name string) *coord.Hold {
	t.Helper()
	h, err := mutex.New(c, name).Lock(Within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ShutsOut takes a lock with one client and fails to with another.
func ShutsOut(t testing.TB, a, b *coord.Client, name string) {
	t.Helper()
	h := Locked(t, a, name)
	defer h.Release()
	IsBusy(t, b, name)
}

// IsBusy checks that a lock is not to be had. On a busy machine a try may get no answer in time; then it is made again.
func IsBusy(t testing.TB, c *coord.Client, name string) {
	t.Helper()
	for ctx := Within(t, 20*time.Second); ; {
		_, err := mutex.New(c, name).TryLock(ctx)
		if errors.Is(err, coord.ErrBusy) {
			return
		}
		if !errors.Is(err, coord.ErrUnavailable) || ctx.Err() != nil {
			t.Errorf("the lock of another: %v", err)
			return
		}
	}
}

// EndsSoon checks that a hold ends in time, whose session lasts a few seconds.
func EndsSoon(t testing.TB, h *coord.Hold) {
	t.Helper()
	select {
	case <-h.Context().Done():
	case <-time.After(10 * time.Second):
		t.Error("the hold goes on")
	}
}

// SpoilsOneLine checks that a line that a stranger has made from nothing is refused, in an error that names it, and no other.
func SpoilsOneLine(t testing.TB, a, b *coord.Client, name string) {
	t.Helper()
	_, err := mutex.New(a, name).Lock(Within(t, 20*time.Second))
	if err == nil || !strings.Contains(err.Error(), `line "`+name+`"`) && !strings.Contains(err.Error(), `"line/`+name+`"`) {
		t.Errorf("a line that he has made: %v", err)
	}
	ShutsOut(t, a, b, "orders")
}

// ListsTheOthers checks that a line that somebody else has spoilt does not keep anybody from listing the others.
func ListsTheOthers(t testing.TB, c *coord.Client, others ...string) {
	t.Helper()
	ctx := Within(t, time.Minute)
	names, err := c.Lines(ctx, "")
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // what is in their way may be large, and the machine slow
		names, err = c.Lines(ctx, "")
	}
	if err != nil || !slices.Equal(names, others) {
		t.Errorf("the lines are %q, and should be %q: %v", names, others, err)
	}
}

// IsNoLine checks that who wants a line that somebody has spoilt is told so.
func IsNoLine(t testing.TB, c *coord.Client, name string) {
	t.Helper()
	_, err := mutex.New(c, name).Lock(Within(t, 20*time.Second))
	if !errors.Is(err, coord.ErrDenied) || !strings.Contains(err.Error(), strconv.Quote(name)) || !strings.Contains(err.Error(), "not what turnwise writes") {
		t.Errorf("the line itself: %v", err)
	}
}

// ListsLarge checks that so many large registers, line/large1 and so on, are listed beside line/orders, which has 4 bytes, and that the
// heap grows by no more than most MB meanwhile.
func ListsLarge(t testing.TB, s register.Store, many, size, most int) {
	t.Helper()
	found := map[string]int{}
	Bounded(t, most, func() {
		err := s.List(Within(t, 2*time.Minute), "line/", func(it register.Item) bool { found[it.Key] = len(it.Value); return true })
		if err != nil {
			t.Error(err)
		}
	})
	if len(found) != many+1 || found["line/large7"] != size || found["line/orders"] != 4 {
		t.Errorf("listed: %v", found)
	}
}

// SpoilsAll checks that everything is refused when a stranger has overwritten all there is.
func SpoilsAll(t testing.TB, c *coord.Client) {
	t.Helper()
	Eventually(t, "everything is refused", func() bool {
		_, err := mutex.New(c, "later").TryLock(Within(t, 20*time.Second))
		return errors.Is(err, coord.ErrDenied)
	})
}

// Emptied has a stranger empty the table while it is used. Nobody is let in before the longest TTL has passed, and by then the
// holder has noticed.
func Emptied(t testing.TB, a, b *coord.Client, empty func()) {
	t.Helper()
	h := Locked(t, a, "orders")
	empty()
	next := Locked(t, b, "orders")
	if h.Err() == nil {
		t.Error("two hold")
	}
	if err := next.Release(); err != nil {
		t.Error(err)
	}
}

// SaidToBeOver is what anybody who can send a note may tell a session: that somebody has ended it. It proves nothing.
func SaidToBeOver(session string) register.Note {
	text := make([]byte, 48)          // no proof, and no sender
	text = append(text, 0, 0, 'X', 0) // of no line: all is over
	return register.Note{Topic: "session/" + session, Text: text}
}

// LineTaken has a stranger take away the line "orders", and nothing else: its holder hears of that, and no other does.
func LineTaken(t testing.TB, a, b *coord.Client, take func()) {
	t.Helper()
	h, other := Locked(t, a, "orders"), Locked(t, a, "other")
	take()
	next := Locked(t, b, "orders")
	EndsSoon(t, h)
	if err := other.Err(); err != nil {
		t.Errorf("the hold of another line: %v", err)
	}
	if err := next.Release(); err != nil {
		t.Error(err)
	}
}

// ConnectionsEnded has a stranger end all connections of two clients, five times. Sessions that last 10 s go on.
func ConnectionsEnded(t testing.TB, a, b *coord.Client, end func()) {
	t.Helper()
	h := Locked(t, a, "orders")
	for range 5 {
		end()
		time.Sleep(200 * time.Millisecond)
	}
	IsBusy(t, b, "orders")
	if err := h.Err(); err != nil {
		t.Errorf("the hold has ended: %v", err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}

// RenewedBeside fails unless a session is renewed through a store that may have one connection, while a request has that and comes
// to no end: of itself it ends with its context.
func RenewedBeside(t testing.TB, s register.Store, request func(context.Context) error) {
	t.Helper()
	stuck, give := context.WithTimeout(t.Context(), 20*time.Second)
	var under sync.WaitGroup
	defer under.Wait()
	defer give()
	under.Go(func() { _ = request(stuck) })
	for waits := false; !waits; {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := s.Read(ctx, "another")
		cancel()
		waits = errors.Is(err, context.DeadlineExceeded)
	}
	if err := putIn(register.ForRenewal(Within(t, 3*time.Second)), s, "session"); err != nil {
		t.Errorf("who may lock other lines ends the holds of this one: %v", err)
	}
}

// PutIn is a request for a register that nobody has made yet.
func PutIn(s register.Store, key string) func(context.Context) error {
	return func(ctx context.Context) error { return putIn(ctx, s, key) }
}

func putIn(ctx context.Context, s register.Store, key string) error {
	_, err := s.Swap(ctx, register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("x")})
	return err
}
