package planted

import (
	"strings"
	"testing"
	"time"
)

func TestTmp(t *testing.T) {
	find := func(w string) Bug {
		for _, b := range zk {
			if strings.Contains(b.Name, w) {
				return b
			}
		}
		t.Fatal(w)
		return Bug{}
	}
	for _, c := range []struct {
		b  Bug
		by Tests
	}{
		{one("B: refused", "coord/zk/watches.go", "setting.set = setting.set || err == nil && w.changes", "setting.set = setting.set || w.changes", Tests{}), scriptsZK("refused")},
		{Bug{Name: "A: cut off", Edits: []Edit{{"coord/zk/session.go", "if committed || s.roster.standing.Load() == 0 {\n\t\ts.renewed(sent)", "if true {\n\t\ts.renewed(sent)"},
			{"coord/zk/session.go", "min(waiting, s.unanswered(now)) > timeout*3/10", "false"}}}, scriptsZK("strands")},
		{find("timeout was cut goes on"), scriptsZK("shorter")},
		{find("left before a backup"), scriptsZK("relapsed")},
		{find("at a server that is behind it"), scriptsZK("restored")},
		{find("greeting that took long"), scriptsZK("deaf")},
		{find("may have missed an amendment"), scriptsZK("meddled")},
		{find("not set anew after"), scriptsZK("cut")},
		{find("made again without a look"), scriptsZK("unacked")},
		{find("that lags"), scriptsZK("unacked")},
		{find("no answer is not repeated"), scriptsZK("cut")},
		{find("with others ahead"), scriptsZK("last")},
		{find("right behind or not"), scriptsZK("last")},
		{find("question stalls"), scriptsZK("firstmute")},
		{find("overtakes"), scriptsZK("together")},
		{find("departure forgets"), scriptsZK("unacked")},
	} {
		c.b.By = c.by
		began := time.Now()
		n, err := c.b.Hunt(root)
		says := n.Says
		if err != nil {
			says = err.Error()
			if len(says) > 300 {
				says = says[:100] + "..." + says[len(says)-200:]
			}
		}
		t.Logf("%-80s %-28s %5.1f s %s", c.b.Name, c.by.Args[1], time.Since(began).Seconds(), says)
	}
}
