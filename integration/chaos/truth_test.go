package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

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
