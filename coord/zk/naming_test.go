package zk

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

func TestOrdinaryNamesAreTheirOwnPaths(t *testing.T) {
	c := &config{root: "/app"}
	for _, line := range []string{"a", "a/b", "with spaces", "ünïcödé", "漢字", "_c_x", "lock-0000000001", "job-1700000000", "zookeeper", "..."} {
		require.Equal(t, "/app/"+line, c.path(line))
	}
	require.Equal(t, "/a/b", (&config{}).path("a/b"))
}

func TestWhatZooKeeperRefusesIsEscaped(t *testing.T) {
	for name, want := range map[string]string{
		"100%":     "100%25",
		"😀":        "%F0%9F%98%80", // two surrogates in the service's UTF-16
		"\ue000":   "%EE%80%80",
		"\ufffd":   "%EF%BF%BD",
		"a\u0085b": "a%C2%85b",
	} {
		require.Equal(t, want, encodeSegment(name, false))
		back, ok := decodeSegment(want, false)
		require.True(t, ok)
		require.Equal(t, name, back)
	}
}

func TestTheServicesOwnNodeIsNoLine(t *testing.T) {
	require.Equal(t, "/%7Aookeeper/a", (&config{}).path("zookeeper/a"))
	require.Equal(t, "/a/zookeeper", (&config{}).path("a/zookeeper"))
}

// A line may be nested in another one under any name. No such name may look like a contender of the outer line, either
// to us or to a tool that shares it.
func TestANestedLineIsNoContender(t *testing.T) {
	for _, name := range []string{
		contender{guid: newGUID(), kind: "lock"}.name(),
		contender{guid: newGUID(), kind: "R", way: Curator, seq: -5}.name(),
		contender{guid: newGUID(), kind: "lock", way: Kazoo}.name(),
		"anything__lock__0000000001", "__rlock__-000000001",
	} {
		s := encodeSegment(name, false)
		require.NotEqual(t, name, s)
		require.False(t, looksLikeContender(s), s)
		back, ok := decodeSegment(s, false)
		require.True(t, ok)
		require.Equal(t, name, back)
	}
}

func TestOnlyWhatEncodesIsDecoded(t *testing.T) {
	for _, name := range []string{"%", "%2", "%zz", "%2f%", "a%2", "%61", "%25%", "%ff", "%FF", "a%2Fb", "%2F"} {
		_, ok := decodeSegment(name, false)
		require.False(t, ok, name)
	}
}

func FuzzSegmentsComeBack(f *testing.F) {
	for _, s := range []string{"a", "%", "zookeeper", "😀", "_c_00000000000000000000000000000000-lock-0000000001", "\ue000", "__lock__0000000000"} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, top bool) {
		if coord.CheckName(s) != nil || strings.Contains(s, "/") {
			return
		}
		e := encodeSegment(s, top)
		back, ok := decodeSegment(e, top)
		if !ok || back != s {
			t.Fatalf("%q became %q, and that %q, %v", s, e, back, ok)
		}
		if _, ok := parseContender(e); ok {
			t.Fatalf("%q became %q, which is a contender", s, e)
		}
		if strings.ContainsFunc(e, func(r rune) bool { return r != '%' && refused(r) }) || e == "." || e == ".." {
			t.Fatalf("%q became %q, which the service refuses", s, e)
		}
	})
}

func FuzzDecodeIsStrict(f *testing.F) {
	for _, s := range []string{"a", "%25", "%7Aookeeper", "%", "%6", "a%20b", "a%2Fb"} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, top bool) {
		segment, ok := decodeSegment(s, top)
		if ok && encodeSegment(segment, top) != s {
			t.Fatalf("%q was decoded as %q, which is encoded as %q", s, segment, encodeSegment(segment, top))
		}
		if ok && strings.Contains(segment, "/") {
			t.Fatalf("%q was decoded as %q, which is more than a segment", s, segment)
		}
	})
}

func TestNamesOfContendersComeBack(t *testing.T) {
	for _, way := range []Names{GoLock, Curator, Kazoo} {
		for _, kind := range []string{"lock", "lead", "R", "W", "S3of17"} {
			for _, seq := range []int32{0, 1, 999_999_999, 1_000_000_000, math.MaxInt32, math.MinInt32, -1_000_000_000, -999_999_999, -1} {
				want := contender{guid: newGUID(), kind: kind, seq: seq, way: way}
				got, ok := parseContender(want.name())
				require.True(t, ok, want.name())
				require.Equal(t, want, got, want.name())
			}
		}
	}
}

// As zk.Lock, Curator 5.4 and Kazoo 2.9 make them.
func TestContendersOfOtherTools(t *testing.T) {
	for name, want := range map[string]contender{
		"_c_0123456789abcdef0123456789abcdef-lock-0000000007":        {kind: "lock", way: GoLock},
		"_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-lock-0000000007":    {kind: "lock", way: Curator},
		"_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-__READ__0000000007": {kind: "R", way: Curator},
		"_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-__WRIT__0000000007": {kind: "W", way: Curator},
		"_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-latch-0000000007":   {kind: "latch", way: Curator},
		"_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-lease-0000000007":   {kind: "lease", way: Curator},
		"5f1d7b1a0e3c4b5f8d9e0a1b2c3d4e5f__lock__0000000007":         {kind: "lock", way: Kazoo},
		"5f1d7b1a0e3c4b5f8d9e0a1b2c3d4e5f__rlock__0000000007":        {kind: "R", way: Kazoo},
	} {
		got, ok := parseContender(name)
		require.True(t, ok, name)
		require.Equal(t, want.kind, got.kind, name)
		require.Equal(t, want.way, got.way, name)
		require.EqualValues(t, 7, got.seq, name)
	}
}

// Servers before 3.6 let the counter go below zero: the minus sign takes one of the ten places.
func TestNumbersBelowZero(t *testing.T) {
	const guid = "0123456789abcdef0123456789abcdef"
	for suffix, want := range map[string]int32{
		"0000000000": 0, "2147483647": math.MaxInt32, "-2147483648": math.MinInt32, "-1000000000": -1_000_000_000,
		"-999999999": -999_999_999, "-000000001": -1,
	} {
		for _, prefix := range []string{"_c_" + guid + "-lock-", guid + "__lock__"} {
			c, ok := parseContender(prefix + suffix)
			require.True(t, ok, prefix+suffix)
			require.Equal(t, want, c.seq, prefix+suffix)
		}
	}
	order := []int32{0, 1, math.MaxInt32, math.MinInt32, -1}
	require.True(t, slices.IsSortedFunc(order, func(a, b int32) int {
		return compareListed(listed{contender{seq: a}, ""}, listed{contender{seq: b}, ""})
	}))
}

// foreigners are names of other nodes that may be found beside contenders.
var foreigners = []string{
	"_c_", "_c_x", "_c_0000000000", "0000000000", "9999999999", "lock", "lock-0000000000", "lock-9999999999", "~",
	"_c_00000000000000000000000000000000-lock-000000000", "_c_ffffffffffffffffffffffffffffffff-lock-00000000000",
	"_c_0123456789abcdef0123456789abcdeg-lock-0000000000", "_c_0123456789abcdef0123456789abcdef-lo.ck-0000000000",
	"_c_0123456789abcdef0123456789abcdef-0000000000", "x__lock__0000000000", "-2147483648", "__lock__-000000001",
}

func TestForeignNamesAreNoContenders(t *testing.T) {
	const curators, kazoos = "_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-", "5f1d7b1a0e3c4b5f8d9e0a1b2c3d4e5f"
	for _, name := range append([]string{
		"", "-", "_c_0123456789abcdef0123456789abcdef-lock-2147483648", "_c_0123456789abcdef0123456789abcdef-lock--2147483649",
		"_c_0123456789abcdef0123456789abcdef-lock-+000000001", "_c_0123456789abcdef0123456789abcdef-lock--000000000",
		"_c_0123456789abcdef0123456789abcdef--0000000001", "_c_0123456789ABCDEF0123456789abcdef-lock-0000000001",
		"_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-other-0000000001", "0123456789abcdef0123456789abcdef__lock__000000001",
		"0123456789abcdef0123456789abcdef-0000000001",
		// Names that neither we nor the other tools would make for the kinds that they have names for, or for none at all.
		"_c_0123456789abcdef0123456789abcdef-S1of30000000001",
		curators + "S1of30000000001", curators + "a.b-lock-0000000001", curators + "-lock-0000000001",
		curators + "lock-lock-0000000001", curators + "R-lock-0000000001", curators + "W-lock-0000000001",
		kazoos + "S1of3__lock__0000000001", kazoos + "-S1of30000000001", kazoos + "-a.b__lock__0000000001", kazoos + "-__lock__0000000001",
		kazoos + "-lock__lock__0000000001", kazoos + "-R__lock__0000000001",
	}, foreigners...) {
		_, ok := parseContender(name)
		require.False(t, ok, name)
	}
}

func FuzzParseContender(f *testing.F) {
	f.Add("_c_0123456789abcdef0123456789abcdef-lock-0000000007")
	f.Add("_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-__READ__-000000001")
	f.Add("5f1d7b1a0e3c4b5f8d9e0a1b2c3d4e5f-W__lock__-2147483648")
	f.Add("_c_x")
	f.Fuzz(func(t *testing.T, name string) {
		c, ok := parseContender(name)
		if !ok {
			return
		}
		if c.name() != name {
			t.Fatalf("%q was read as %+v, whose name is %q", name, c, c.name())
		}
		if !driver.ValidKind(c.kind) || len(c.guid) != 32 {
			t.Fatalf("%q was read as %+v", name, c)
		}
	})
}
