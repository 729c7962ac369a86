// Package storecheck has what the tests of several stores share beside storetest: short words for what a scenario does with
// a store, and scenarios that need a server of its kind. Whatever goes wrong fails the test.
package storecheck

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// Within returns a context that lasts for d, or until the test and all that it cleans up has ended.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Logger writes to the test's log as long as the test lasts.
func Logger(t testing.TB) *slog.Logger {
	var over atomic.Bool
	t.Cleanup(func() { over.Store(true) })
	return slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		if !over.Load() {
			t.Logf("%s", b)
		}
		return len(b), nil
	}), nil))
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

var tables atomic.Int64

// FreshTable names a table that nobody has used.
func FreshTable() string { return fmt.Sprintf("registers_%d_%d", os.Getpid(), tables.Add(1)) }

// Eventually waits for what must happen, however busy the machine is.
func Eventually(t testing.TB, what string, happens func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !happens(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it never happens: %s", what)
		}
	}
}

// Put swaps in a value and returns what stands there then.
func Put(t testing.TB, s register.Store, was register.Item, value string, notes ...register.Note) register.Item {
	t.Helper()
	w := register.Swap{Key: was.Key, Old: was.Version, Next: register.NewVersion(), Value: []byte(value), Notes: notes}
	it, err := s.Swap(Within(t, 10*time.Second), w)
	if err != nil || it.Version != w.Next || string(it.Value) != value {
		t.Fatalf("swap: %+v, %v", it, err)
	}
	return it
}

// Remove takes a register away.
func Remove(t testing.TB, s register.Store, was register.Item) {
	t.Helper()
	if it, err := s.Swap(Within(t, 10*time.Second), register.Swap{Key: was.Key, Old: was.Version}); err != nil || !it.Version.IsZero() {
		t.Fatalf("remove: %+v, %v", it, err)
	}
}

// Read returns what stands in a register.
func Read(t testing.TB, s register.Store, key string) register.Item {
	t.Helper()
	it, err := s.Read(Within(t, 10*time.Second), key)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// Calls are the calls that ask the server about registers. Each takes a register that was there before.
var Calls = map[string]func(t testing.TB, s register.Store, it register.Item) error{
	"read": func(t testing.TB, s register.Store, it register.Item) error {
		_, err := s.Read(Within(t, 10*time.Second), it.Key)
		return err
	},
	"make": func(t testing.TB, s register.Store, _ register.Item) error {
		w := register.Swap{Key: "new", Next: register.NewVersion(), Notes: []register.Note{{Topic: "t"}}}
		_, err := s.Swap(Within(t, 10*time.Second), w)
		return err
	},
	"change": func(t testing.TB, s register.Store, it register.Item) error {
		_, err := s.Swap(Within(t, 10*time.Second), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion()})
		return err
	},
	"remove": func(t testing.TB, s register.Store, it register.Item) error {
		_, err := s.Swap(Within(t, 10*time.Second), register.Swap{Key: it.Key, Old: it.Version})
		return err
	},
	"list": func(t testing.TB, s register.Store, _ register.Item) error {
		return s.List(Within(t, 10*time.Second), "", func(register.Item) bool { return true })
	},
}

// As returns a URL for another user and another database. What is empty stays as it is; "/" is no database.
func As(t testing.TB, u, user, password, database string) string {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		parsed.User = url.UserPassword(user, password)
	}
	if database != "" {
		parsed.Path = "/" + strings.TrimPrefix(database, "/")
	}
	return parsed.String()
}
