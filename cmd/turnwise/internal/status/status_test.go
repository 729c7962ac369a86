package status

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

func TestOrdinals(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 112: "112th", 122: "122nd"} {
		assert.Equal(t, want, ordinal(n))
	}
}

func line() []coord.Node {
	return []coord.Node{
		{ID: "h", Token: 1, Holds: true, Owner: coord.Owner{Host: "host\x1b[2J", PID: 7, Label: `say "hi"`, Since: time.Now().Add(-75 * time.Second)}},
		{ID: "w", Token: 2},
		{ID: "me", Token: 3},
	}
}

// In a log, the wait is a new line whenever it says something else; on a terminal, the same line again. What others wrote
// is made harmless.
func TestTheWaitIsSaid(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		out, err := os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		r := New("a", "exclusive", out, terminal, nil)
		me := coord.Node{Token: 3, Line: "a"}
		assert.True(t, r.Waiting(line(), me))
		assert.True(t, r.Waiting(line(), me))
		assert.False(t, r.Waiting(line()[1:], coord.Node{Token: 9, Line: "a"}), "I am not there (any more)")
		assert.False(t, r.Waiting(line(), coord.Node{Token: 1, Line: "a"}), "I have my turn")
		r.Waiting(line()[2:], me)
		r.Over()
		r.Close()
		text, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		const first = `waiting: 2nd in line; held by host\x1b[2J/7 "say \"hi\"", who came 1m15s ago`
		if !terminal {
			assert.Equal(t, "turnwise: "+first+"\nturnwise: waiting: 1st in line\n", string(text))
			continue
		}
		assert.Equal(t, 2, strings.Count(string(text), first), string(text))
		assert.True(t, strings.HasSuffix(string(text), "\r\x1b[K"), "the line is wiped")
		assert.NotContains(t, string(text), "\n")
	}
}

// Who may write a holder's node changes its name again and again. Each change is a line in the waiter's log, and no long one.
func TestAHoldersNameFillsNoLog(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	r := New("a", "exclusive", out, false, nil)
	for i := range 10 {
		long := fmt.Sprint(i) + strings.Repeat("\U000e0001", 3<<18)
		owner, _ := driver.DecodeCard(driver.EncodeCard(coord.Owner{Host: long, Label: long}, nil))
		holder := coord.Node{ID: "h", Token: 1, Holds: true, Owner: owner}
		assert.True(t, r.Waiting([]coord.Node{holder, {Token: 3}}, coord.Node{Token: 3, Line: "a"}))
		assert.Less(t, len(JSON(Of(holder))), 10_000)
	}
	r.Close()
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	assert.Equal(t, 10, strings.Count(string(text), "\n"))
	assert.Less(t, len(text), 10*4_000)
}

// Whoever waits for several locks is told for which.
func TestTheWaitForOneOfSeveralIsSaid(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	r := New("a", "exclusive", out, false, nil)
	r.Waiting(line()[2:], coord.Node{Token: 3, Line: "b\x1b"})
	r.Close()
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	assert.Equal(t, `turnwise: waiting: 1st in line for "b\x1b"`+"\n", string(text))
}

func TestProgramsAreTold(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	rep := New("a", "shared", nil, false, w)
	rep.Waiting(line(), coord.Node{Token: 3})
	rep.Tell(Event{Event: "granted", Token: "3"})
	rep.Close()
	in := bufio.NewScanner(r)
	var got []Event
	for in.Scan() {
		var e Event
		require.NoError(t, json.Unmarshal(in.Bytes(), &e))
		got = append(got, e)
	}
	require.Len(t, got, 2)
	assert.Equal(t, "waiting", got[0].Event)
	assert.Equal(t, 2, got[0].Position)
	assert.Equal(t, "h", got[0].Holder.ID)
	assert.Equal(t, "granted", got[1].Event)
	assert.Equal(t, Version, got[1].Version)
}

// A program that does not read holds nobody up.
func TestNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	rep := New("a", "shared", nil, false, w)
	began := time.Now()
	for range 5000 {
		rep.Tell(Event{Event: "waiting", Reason: strings.Repeat("x", 100)})
	}
	rep.Close()
	assert.Less(t, time.Since(began), 30*time.Second)
}
