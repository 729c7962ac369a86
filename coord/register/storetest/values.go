package storetest

import (
	"bytes"
	"errors"
	"strings"

	"github.com/turnwise/turnwise/coord/register"
)

var values = []scenario{
	{name: "of any kind", run: anyValue},
	{name: "as large as is allowed", run: largeValue},
	{name: "that is too large changes nothing", run: tooLarge},
}

func anyValue(s *scene) {
	a, b := s.open(), s.open()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	var stands register.Item
	for _, value := range []string{
		"", "\x00", "a\x00b", "\x00\x00\x00", "\xff", "\xff\xfe", string(every), " ", " a ", "\n", "a\r\n", "\r", "\t", `\`, `\x41`, `\000`, "'", `"`, "%s", "$1",
		"é", "\xc3", "{}", "null", "0", "007", "1e3", "END\r\n", "VA 1\r\n", strings.Repeat("\x00", 1000), strings.Repeat("\xff", 1000),
		strings.Repeat("a", 2048), strings.Repeat("ab\x00", 30_000), "a", "",
	} {
		stands = s.put(a, s.key("k"), stands.Version, value)
		s.stands(b, stands)
		s.same("what List showed", s.listed(b, s.prefix)[s.key("k")], stands)
		s.conflicts(b, register.Swap{Key: s.key("k"), Old: register.NewVersion(), Next: register.NewVersion()}, stands)
	}
}

// limit is the size of the largest value that the store must take.
func (s *scene) limit() int {
	if s.sys.Limit > 0 {
		return s.sys.Limit
	}
	return 1 << 20
}

// noise returns n bytes that a system cannot make shorter.
func noise(n int) string {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		v := register.NewVersion()
		b = append(b, v[:]...)
	}
	return string(b[:n])
}

func largeValue(s *scene) {
	a, b := s.open(), s.open()
	var stands register.Item
	for _, size := range []int{100_000, s.limit() - 1, s.limit()} {
		stands = s.put(a, s.key("k"), stands.Version, noise(size))
		s.stands(b, stands)
		s.same("what List showed", s.listed(b, s.prefix)[s.key("k")], stands)
	}
	s.put(b, s.key("k"), stands.Version, "small again")
}

func tooLarge(s *scene) {
	s.needs("say how large a value may be", s.sys.Limit == 0)
	a, b := s.open(), s.open()
	try := func(sw register.Swap, stands register.Item) {
		s.Helper()
		ctx, cancel := s.while()
		defer cancel()
		if _, err := a.Swap(ctx, sw); !errors.Is(err, register.ErrTooLarge) {
			s.Errorf("Swap with %d bytes: %v, want ErrTooLarge", len(sw.Value), err)
		}
		s.stands(b, stands)
	}
	value := bytes.Repeat([]byte("v"), s.sys.Limit+1)
	for range 2 {
		try(register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: value}, register.Item{Key: s.key("k")})
	}
	stands := s.put(a, s.key("k"), register.Version{}, "small")
	try(register.Swap{Key: s.key("k"), Old: stands.Version, Next: register.NewVersion(), Value: value}, stands)
	s.put(a, s.key("k"), stands.Version, "as before")
}
