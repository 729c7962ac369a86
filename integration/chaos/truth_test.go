package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatOnlyALeaderThatWasStoppedHasLoggedDidNotComeToPass(t *testing.T) {
	log := func(zxids ...int64) map[int64]transaction {
		own := map[int64]transaction{}
		for _, z := range zxids {
			own[z] = transaction{zxid: z}
		}
		return own
	}
	var got []int64
	for _, t := range agreed([]map[int64]transaction{
		log(0x1_00000001, 0x1_00000002, 0x1_00000003, 0x1_00000004, 0x2_00000001), // led first; had a snapshot of what came next
		log(0x1_00000001, 0x1_00000002, 0x2_00000001, 0x2_00000002, 0x2_00000003),
		log(0x1_00000002, 0x2_00000002), // had a snapshot of what was before
	}) {
		got = append(got, t.zxid)
	}
	require.Equal(t, []int64{0x1_00000001, 0x1_00000002, 0x2_00000001, 0x2_00000002, 0x2_00000003}, got,
		"without the last two of the first leader; of the present one nothing is undone")
}

// What the server's own tool makes of a log, with every way in which a node comes and goes.
func TestATransactionLogIsReplayed(t *testing.T) {
	text, err := os.ReadFile("testdata/transactions.txt")
	require.NoError(t, err)
	all := parseDump(text)
	require.NoError(t, complete(all))
	truth := replay(all)
	type life struct {
		line, kind string
		born, gone int64
	}
	var lives []life
	for _, s := range truth.nodes {
		lives = append(lives, life{s.line, s.kind, s.born, s.gone})
	}
	require.Equal(t, []life{
		{"election", "lead", 0x103, 0x107}, // deleted alone
		{"mutex", "lock", 0x104, 0x108},    // marked and deleted
		{"rwlock", "W", 0x105, 0x109},      // amended to
		{"rwlock", "R", 0x109, 0x10b},      // a reader, whose session is closed
		{"mutex", "lock", 0x10a, 0},        // stands
	}, lives)
	require.Equal(t, []stamp{{0x106, 25545912809268}}, truth.stamps)
	require.Error(t, complete(append(all[:3:3], all[5:]...)))
}
