package storecheck

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Opened opens a store, and closes it with the test.
func Opened[S register.Store](t testing.TB, open func(ctx context.Context) (S, error)) S {
	t.Helper()
	s, err := open(Within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Ways are the ways into a store's package, each to where nobody is, and the options that all stores have. What a store does not
// have is nil.
type Ways[O any] struct {
	Connect, Open, New func(ctx context.Context, opts ...O) error

	WithClient              func(...coord.Option) O
	WithTTL, WithLongestTTL func(time.Duration) O

	LongestAtOpen bool // Open is told the longest TTL as well
}

// To is the way to an address, or to whatever else says where. It closes what it opens.
func To[A, T, O any](way func(context.Context, A, ...O) (T, error), at A) func(context.Context, ...O) error {
	return func(ctx context.Context, opts ...O) error {
		opened, err := way(ctx, at, opts...)
		if c, ok := any(opened).(io.Closer); ok && err == nil {
			c.Close()
		}
		return err
	}
}

// Options checks that a nil option changes nothing, that a TTL is refused that can only be a slip, since one without its unit is
// one of nanoseconds, and that each way refuses the options that would have no effect on it.
func Options[O any](t *testing.T, w Ways[O]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	takes := func(way string, err error) {
		t.Helper()
		if errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s: %v", way, err)
		}
	}
	var none O
	takes("Connect with a nil option", w.Connect(ctx, none))
	takes("Open with a nil option", w.Open(ctx, none))
	takes("Connect with WithClient", w.Connect(ctx, w.WithClient(coord.WithOwnerLabel("tests"))))
	const toClient = "pass these options to coord.NewClient"
	require := w.WithClient(coord.Require(coord.Strength{Restart: coord.Remembers}))
	Refused(t, w.Open(ctx, require), coord.ErrInvalid, toClient)
	if w.New != nil {
		Refused(t, w.New(ctx, require), coord.ErrInvalid, toClient)
	}
	for name, with := range map[string]func(time.Duration) O{"WithTTL": w.WithTTL, "WithLongestTTL": w.WithLongestTTL} {
		if with == nil {
			continue
		}
		takes("Connect with "+name, w.Connect(ctx, w.WithLongestTTL(time.Minute), with(time.Minute)))
		if err := w.Open(ctx, with(time.Minute)); name == "WithLongestTTL" && w.LongestAtOpen {
			takes("Open with "+name, err)
		} else {
			Refused(t, err, coord.ErrInvalid, "pass register."+name+" to register.New")
		}
		for _, slip := range []time.Duration{0, -time.Second, 30, 499 * time.Millisecond, 25 * time.Hour} {
			Refused(t, w.Connect(ctx, with(slip)), coord.ErrInvalid, name)
			if w.New != nil {
				Refused(t, w.New(ctx, with(slip)), coord.ErrInvalid, name)
			}
		}
	}
}

// Refused checks what Open says of a mistake that no retry mends: one line with what to do, and no password.
func Refused(t *testing.T, err, class error, says string) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatal("it opens")
	case !errors.Is(err, class):
		t.Errorf("not %q: %v", class, err)
	case !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n"):
		t.Errorf("it says %v, want %q in one line", err, says)
	case strings.Contains(err.Error(), "secret"):
		t.Errorf("it shows the password: %v", err)
	}
}

// Saying is a server that answers everything with the same text.
func Saying(t testing.TB, text string) (address string) {
	t.Helper()
	return Serve(t, func(c net.Conn) {
		buf := make([]byte, 4096)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	})
}

// NobodyThere checks that opening ends with its context where nobody answers, and says where that is. between stands
// between the servers of one address; "" if it has one only.
func NobodyThere(t *testing.T, between string, open func(ctx context.Context, address string) error) {
	t.Helper()
	const nobody = "127.0.0.1:1"
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	check := func(address, named string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		begun := time.Now()
		err := open(ctx, address)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrDenied) ||
			!strings.Contains(err.Error(), named) || strings.Contains(err.Error(), "\n") {
			t.Errorf("open: %v", err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it came back after %v", took)
		}
	}
	silent := mute.Addr().String()
	check(nobody, nobody)
	check(silent, silent)
	if between != "" {
		check(nobody+between+silent, nobody)
	}
}

// ManyOpen has many open a store at once that is not there yet. None of them may think that something was forgotten.
func ManyOpen(t *testing.T, open func(ctx context.Context) (register.Store, error)) {
	t.Helper()
	type answer struct {
		mem register.Memory
		err error
	}
	answers := make(chan answer, 12)
	for range cap(answers) {
		go func() {
			var a answer
			s, err := open(Within(t, 30*time.Second))
			if a.err = err; err == nil {
				a.mem, a.err = s.Memory(Within(t, 30*time.Second))
				a.err = errors.Join(a.err, s.Close())
			}
			answers <- a
		}()
	}
	ids := make(map[string]bool)
	for range cap(answers) {
		a := <-answers
		if a.err != nil {
			t.Error(a.err)
		}
		ids[a.mem.ID] = true
	}
	if len(ids) != 1 {
		t.Errorf("they found %d memories", len(ids))
	}
}

// ToldNothing checks that somebody who answers in a server's place was not told a password.
func ToldNothing(t testing.TB, told <-chan string) {
	t.Helper()
	select {
	case secret := <-told:
		t.Errorf("it was told %q", secret)
	default:
	}
}

// Told checks that the password is sent where that is allowed.
func Told(t testing.TB, told <-chan string, password string) {
	t.Helper()
	select {
	case secret := <-told:
		if secret != password {
			t.Errorf("it was told %q", secret)
		}
	case <-time.After(10 * time.Second):
		t.Error("where it is allowed, the password is not sent")
	}
}
