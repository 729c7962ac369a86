package zk

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
)

func TestNamesOfContendersComeBack(t *testing.T) {
	for _, way := range []Names{GoLock, Curator, Kazoo} {
		for _, kind := range []string{"lock", "lead", "R", "W", "S3of17"} {
			for _, seq := range []int32{0, 1, 999_999_999, 1_000_000_000, math.MaxInt32, math.MinInt32, -1_000_000_000, -999_999_999, -1} {
				want := contender{guid: newGUID(), kind: kind, seq: seq, way: way}
				got, ok := parseContender(want.name())
				require.True(t, ok, want.name())
				require.Equal(t, want, got, want.name())
				require.True(t, ourGUID(got.guid), want.name())
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
		"5f1d7b1a0e3c4b5f8d9e0a1b2c3d4e5f__lock__0000000007":         {kind: "lock", way: Kazoo},
		"5f1d7b1a0e3c4b5f8d9e0a1b2c3d4e5f__rlock__0000000007":        {kind: "R", way: Kazoo},
	} {
		got, ok := parseContender(name)
		require.True(t, ok, name)
		require.Equal(t, want.kind, got.kind, name)
		require.Equal(t, want.way, got.way, name)
		require.EqualValues(t, 7, got.seq, name)
		require.False(t, ourGUID(got.guid), name)
		require.False(t, got.markable(), name)
	}
}

// Servers before 3.6 let the counter go below zero: the minus takes one of the ten places.
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

func TestForeignNamesAreNoContenders(t *testing.T) {
	for _, name := range append([]string{
		"", "-", "_c_0123456789abcdef0123456789abcdef-lock-2147483648", "_c_0123456789abcdef0123456789abcdef-lock--2147483649",
		"_c_0123456789abcdef0123456789abcdef-lock-+000000001", "_c_0123456789abcdef0123456789abcdef-lock--000000000",
		"_c_0123456789abcdef0123456789abcdef--0000000001", "_c_0123456789ABCDEF0123456789abcdef-lock-0000000001",
		"_c_8a9f7e0c-3f0e-4c56-9d0e-0d5a2c1b7f3e-latch-0000000001", "0123456789abcdef0123456789abcdef__lock__000000001",
		"0123456789abcdef0123456789abcdef-0000000001",
	}, foreigners...) {
		_, ok := parseContender(name)
		require.False(t, ok, name)
	}
}

func TestOnlyOurOwnGUIDsPass(t *testing.T) {
	require.True(t, ourGUID("000102030405060708090a0b7ace0037"), "as every version makes and knows them")
	for range 1000 {
		require.True(t, ourGUID(newGUID()))
	}
	for range 1000 {
		require.False(t, ourGUID(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())))
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

func TestTheNearestAheadIsFoundInAnyOrder(t *testing.T) {
	const dir = "/app/a"
	var names []string
	kinds := []string{"R", "W", "R", "lock", "R", "R", "W"}
	for i, kind := range kinds {
		names = append(names, contender{guid: newGUID(), kind: kind, seq: int32(i)}.name())
	}
	st := &standing{line: "a", dir: dir, names: []string{dir + "/" + names[5]}}
	for range 20 {
		mixed := append([]string{"foreign", "_c_x"}, names...)
		rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })

		ahead, ok := st.ahead(&list{names: mixed, born: 1000}, driver.Sight{})
		require.True(t, ok)
		require.Equal(t, []driver.Node{{Line: "a", ID: dir + "/" + names[4], Kind: "R", Token: 1004}}, ahead)
		require.True(t, st.rightBehind(ahead[0].ID))

		ahead, ok = st.ahead(&list{names: mixed, born: 1000}, driver.Sight{Ignore: []string{"R"}})
		require.True(t, ok)
		require.Equal(t, []driver.Node{{Line: "a", ID: dir + "/" + names[3], Kind: "lock", Token: 1003}}, ahead)

		ahead, ok = st.ahead(&list{names: mixed, born: 1000}, driver.Sight{All: true, Ignore: []string{"R"}})
		require.True(t, ok)
		require.Len(t, ahead, 2)
		require.Equal(t, "W", ahead[0].Kind)
	}
	_, ok := st.ahead(&list{names: names[:5], born: 1000}, driver.Sight{})
	require.False(t, ok, "I am not in the list")
}
