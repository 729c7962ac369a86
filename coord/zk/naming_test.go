package zk

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
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

// A line may be nested in another one under any name. None may look like a contender of the outer line to us, nor to a
// tool that shares it.
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
	for _, name := range []string{"%", "%2", "%zz", "%2f%", "a%2", "%61", "%25%", "%ff", "%FF"} {
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
	for _, s := range []string{"a", "%25", "%7Aookeeper", "%", "%6", "a%20b"} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, top bool) {
		if segment, ok := decodeSegment(s, top); ok && encodeSegment(segment, top) != s {
			t.Fatalf("%q was decoded as %q, which is encoded as %q", s, segment, encodeSegment(segment, top))
		}
	})
}
