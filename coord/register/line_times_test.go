package register

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Whoever can write a line can write any time. One that JSON has no text for ended whoever showed it as JSON: a command that reports on its
// wait, or the page with all other lines.
func TestATimeThatNobodyCanWriteDownIsNone(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for what, since := range map[string][2]int64{
		"far ahead":       {math.MaxInt64, 0},
		"far back":        {math.MinInt64, 0},
		"far together":    {math.MaxInt64 / 2, math.MaxInt64 / 2},
		"beyond all":      {math.MaxInt64, math.MaxInt64},
		"the year 10000":  {time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), 0},
		"before the year": {time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), -1},
		"now":             {now.UnixMilli(), 0},
	} {
		l := &line{next: 2, count: 1, first: 1, last: 1, kinds: []string{"lock"},
			members: []member{{since: since[0], owner: encodeOwner(driver.Owner{Host: "host", PID: 7})}}}
		l.entries = appendEntry(nil, node{token: 1, since: since[1]}, 0)
		for n := range l.nodes() {
			shown := l.full("line", n, make(map[int]*driver.Owner))
			if _, err := json.Marshal(shown); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if shown.Owner.Host != "host" || what == "now" && !shown.Owner.Since.Equal(now) {
				t.Errorf("%s: it is shown as %+v", what, shown.Owner)
			}
		}
	}
}
