package coord_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "a/b", "Größe/☃", "with space", "ไทย", "हिन्दी", "日本", "e\u0301", "_c_0", "lease", "zookeeper",
		strings.Repeat("x", 255), strings.Repeat(strings.Repeat("x", 255)+"/", 3) + strings.Repeat("y", 256-1)} {
		if err := coord.CheckName(name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
	for _, name := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/./b", "a\n", "\x7f", "\u0085", "\xc3\x28",
		"a\u202eb", "a\u200bb", "a\u200db", "\ufeffa", "a\u00adb", "a\u2028b", "a\u2029b", "a\U000e0041b", "a\u3164", "a\u115fb", "a\ufe0f",
		"a\u034fb", strings.Repeat("x", 256), strings.Repeat("xx/", 400)} {
		err := coord.CheckName(name)
		if !errors.Is(err, coord.ErrInvalidName) {
			t.Errorf("%q is allowed", name)
		} else if len(err.Error()) > 300 {
			t.Errorf("an endless message: %v", err)
		}
	}
}

func TestANameIsRefusedAsItWasGivenWhateverTheNamespace(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		for _, name := range []string{"", "/a", "a\n"} {
			_, plain := s.Client().Line(t.Context(), name)
			_, within := s.Client(coord.WithNamespace("shop")).Line(t.Context(), name)
			assert.ErrorIs(t, within, coord.ErrInvalidName)
			assert.EqualError(t, within, plain.Error())
		}
		_, err := s.Client(coord.WithNamespace("shop//orders")).Line(t.Context(), "a")
		assert.ErrorIs(t, err, coord.ErrInvalidName, "the whole name must be one, too")
	})
}

func TestTheEmptyNamespaceIsNone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h, err := s.Client(coord.WithNamespace("shop"), coord.WithNamespace("")).Acquire(t.Context(), "line", "lock", nil, exclusive)
		require.NoError(t, err)
		assert.Len(t, lineOf(t, s, "line"), 1)
		require.NoError(t, h.Release())
	})
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"a", "a/b", "..", "\xff", "a//b", strings.Repeat("x", 256)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if coord.CheckName(name) != nil {
			return
		}
		if name == "" || len(name) > 1024 || !utf8.ValidString(name) {
			t.Errorf("%q is allowed", name)
		}
		for _, segment := range strings.Split(name, "/") {
			if segment == "" || segment == "." || segment == ".." || len(segment) > 255 {
				t.Errorf("%q has the segment %q", name, segment)
			}
		}
		if coord.CheckName("ns/"+name) != nil && len(name) <= 1021 {
			t.Errorf("%q cannot stand below another name", name)
		}
	})
}

func TestWhatOthersWroteIsSafeToShow(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		`nightly "backup" über ☃`:    `nightly "backup" über ☃`,
		"\x1b[2J\r\n\t\x00":          `\x1b[2J\r\n\t\x00`,
		"a\u202eb\u200b\ufeff\u2028": `a\u202eb\u200b\ufeff\u2028`,
		`\n \" "`:                    `\\n \\" "`,
		"\xff":                       `\xff`,
		"\u00a0\u3164\ufe0f":         `\u00a0\u3164\ufe0f`,
		"\U000e0041":                 `\U000e0041`,
		"\ufffd":                     "\ufffd",
	} {
		if got := coord.Printable(text); got != want {
			t.Errorf("Printable(%q) is %s, want %s", text, got, want)
		}
	}
}

// Whatever is shown is on one line and visible, and different texts look different.
func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"a", "\x1b[2J", "a\u202eb", "\\n", "\n", "\xff\xfe", "\U000e0041", "\u3164"} {
		f.Add(seed, seed+"\\")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		shown := coord.Printable(a)
		for _, r := range shown {
			if !strconv.IsPrint(r) || unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point) {
				t.Errorf("Printable(%+q) shows %+q", a, r)
			}
		}
		if a != b && shown == coord.Printable(b) {
			t.Errorf("%+q and %+q are shown as %q", a, b, shown)
		}
	})
}
