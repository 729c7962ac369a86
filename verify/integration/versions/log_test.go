//go:build linux

package versions

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// event is a line that a worker has written.
type event struct {
	what, who string
	args      []string
}

// old reports whether its worker, or the one that it names, is of the older version.
func old(who string) bool { return strings.HasPrefix(who, "old-") }

// history is what all workers of a scene have written so far, in order.
type history []event

func readHistory(t *testing.T, dir string) (h history) {
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); strings.HasSuffix(line, "\n") && len(f) > 1 {
			h = append(h, event{f[0], f[1], f[2:]})
		}
	}
	return h
}

// count counts the events of a kind with these arguments first.
func (h history) count(what, who string, args ...string) (n int) {
	for _, e := range h {
		if e.what == what && e.who == who && len(e.args) >= len(args) && strings.Join(e.args[:len(args)], " ") == strings.Join(args, " ") {
			n++
		}
	}
	return n
}

// turns is how often a worker has been in the line of which it has had the fewest turns.
func (h history) turns(who string) int {
	least := min(h.count("in", who, "rwlock", "R"), h.count("in", who, "rwlock", "W"))
	for _, line := range []string{"mutex", "semaphore", "election"} {
		least = min(least, h.count("in", who, line))
	}
	return least
}

// sees reports whether a worker has seen a leader of the other version.
func (h history) sees(who string) bool {
	for _, e := range h {
		if e.what == "sees" && e.who == who && old(e.args[0]) != old(who) {
			return true
		}
	}
	return false
}

// judge says what must not have happened.
func (h history) judge(t *testing.T) {
	h.judgeExclusion(t)
	h.judgeTokens(t)
	rounds, slots := map[string]int{}, map[string]int{}
	versions := map[bool]int{}
	for _, e := range h {
		switch e.what {
		case "round":
			rounds[e.args[0]]++
		case "slot":
			slots[e.args[0]]++
		case "in":
			versions[old(e.who)]++
		}
	}
	for round, n := range rounds {
		assert.LessOrEqual(t, n, members, "so many went on in round %s", round)
	}
	for slot, n := range slots {
		assert.Equal(t, 1, n, "so often slot %s was run", slot)
	}
	assert.NotEmpty(t, rounds)
	assert.NotEmpty(t, slots)
	t.Logf("%d turns of the older version, %d of today's, %d rounds, %d slots", versions[true], versions[false], len(rounds), len(slots))
}

// judgeExclusion goes by what the kernel said. Who has lost a hold may be found inside still: that is told by his clock, not here.
func (h history) judgeExclusion(t *testing.T) {
	lost := map[string]bool{} // by line and token
	for _, e := range h {
		if e.what == "out" && e.args[3] == "lost" {
			lost[e.args[0]+e.args[2]] = true
		}
	}
	there := map[string]map[string]bool{} // of each line, who is inside
	for _, e := range h {
		switch e.what {
		case "in":
			if there[e.args[0]] == nil {
				there[e.args[0]] = map[string]bool{}
			}
			there[e.args[0]][e.args[2]] = true
		case "out":
			delete(there[e.args[0]], e.args[2])
		case "two":
			excused := false
			for token := range there[e.args[0]] {
				excused = excused || lost[e.args[0]+token]
			}
			assert.True(t, excused, "%s was let in beside %v: %v", e.who, there[e.args[0]], e.args)
		}
	}
}

// judgeTokens: where one at a time is inside, each has a greater token than all before, whatever their versions, and reads in the memo
// what the one before has written.
func (h history) judgeTokens(t *testing.T) {
	last, sure := map[string]int64{}, int64(0)
	for _, e := range h {
		if e.what != "in" && e.what != "out" {
			continue
		}
		line, kind, token := e.args[0], e.args[1], number(t, e.args[2])
		switch {
		case line == "semaphore" || kind == "R":
		case e.what == "in":
			assert.Greater(t, token, last[line], "%s in %s, after %v", e.who, line, last[line])
			if memo := strings.TrimSuffix(e.args[3], "."); line == "mutex" && (memo != "" || sure > 0) {
				assert.GreaterOrEqual(t, number(t, memo), sure, "the memo that %s read was an older one", e.who)
				assert.LessOrEqual(t, number(t, memo), last[line], "nobody had written the memo that %s read", e.who)
			}
			last[line] = token
		case line == "mutex" && e.args[3] == "ok":
			sure = token
		}
		if e.what == "in" && kind == "R" {
			assert.Greater(t, token, last[line], "a reader, after a writer")
		}
	}
}

func number(t *testing.T, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}
