//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

func open(t *testing.T, dir string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	heard := make(chan string, 10)
	stop, err := s.Listen(t.Context(), "first/x", func(b []byte) { heard <- string(b) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var old register.Version
	for range 3 {
		v := register.NewVersion()
		it, err := s.Swap(t.Context(), register.Swap{Key: "line/x", Old: old, Next: v, Value: []byte("hello"), Notes: []register.Note{{Topic: "first/x", Text: []byte("hi")}}})
		if err != nil {
			t.Fatal(err)
		}
		if it.Version != v {
			t.Fatal(it)
		}
		old = v
		if h := <-heard; h != "hi" {
			t.Fatal(h)
		}
		it, err = s.Read(t.Context(), "line/x")
		if err != nil || it.Version != v || string(it.Value) != "hello" {
			t.Fatal(it, err)
		}
	}
	if _, err := s.Swap(t.Context(), register.Swap{Key: "line/x", Next: register.NewVersion()}); !errors.Is(err, register.ErrConflict) {
		t.Fatal(err)
	}
	n := 0
	s.List(t.Context(), "line", func(it register.Item) bool { n++; return true })
	if n != 1 {
		t.Fatal(n)
	}
	release, err := s.Keep(t.Context(), "session/1")
	if err != nil {
		t.Fatal(err)
	}
	s2 := open(t, dir)
	if _, err := s2.Keep(t.Context(), "session/1"); !errors.Is(err, register.ErrConflict) {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, release)
	start := time.Now()
	if err := s2.Unkept(t.Context(), "session/1"); err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(start))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_ = ctx
}

func BenchmarkSwap(b *testing.B) {
	for _, dir := range []string{b.TempDir(), "/dev/shm/turnwise-bench"} {
		b.Run(dir[:8], func(b *testing.B) {
			s, err := Open(b.Context(), dir)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			var old register.Version
			value := make([]byte, 100)
			b.ReportAllocs()
			for b.Loop() {
				v := register.NewVersion()
				if _, err := s.Swap(b.Context(), register.Swap{Key: "line/x", Old: old, Next: v, Value: value}); err != nil {
					b.Fatal(err)
				}
				old = v
			}
		})
	}
}
