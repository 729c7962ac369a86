package serve

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// mostSeries is how many lines get series of their own over the whole life of the page: a collector keeps every series it
// has seen.
const mostSeries = 200

func (p *Page) metrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerFor)
	defer cancel()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(p.write(p.survey.Fresh(ctx), time.Now()))
}

// tally is what a board comes to.
type tally struct {
	holders, waiters int
	wait, first, age float64 // the longest of each, in seconds; wait and first without those who stand for long by design

	shards map[string]bool // names of shards, by their groups

	series [4][]string // of single lines: holders, waiters, the longest wait, for how long the first has stood there
}

// add counts a line. It has series of its own if that is wanted.
func (t *tally) add(l lines.Line, own bool, now time.Time) {
	if l.AsOf == nil {
		return
	}
	since := func(at *time.Time) float64 {
		if at == nil || at.IsZero() {
			return 0
		}
		return max(0, now.Sub(*at).Seconds())
	}
	wait, first := since(l.Oldest), since(stoodSince(l))
	t.holders += l.Holding
	t.waiters += l.Waiting
	t.wait, t.age = max(t.wait, since(l.OldestWork)), max(t.age, since(l.AsOf))
	if !t.standsByDesign(l) {
		t.first = max(t.first, first)
	}
	if !own {
		return
	}
	label := `{line="` + escape(l.Name) + `"} `
	for i, v := range []string{strconv.Itoa(l.Holding), strconv.Itoa(l.Waiting), number(wait), number(first)} {
		t.series[i] = append(t.series[i], label+v)
	}
}

// stoodSince returns since when the first in line has its turn, if that is known, and otherwise when it came.
func stoodSince(l lines.Line) *time.Time {
	if len(l.Contenders) == 0 {
		return nil
	}
	first := l.Contenders[0]
	if first.Turn != nil {
		return first.Turn
	}
	return &first.Since
}

// standsByDesign reports whether the first in line may stand there for weeks and be well: a leader, a member of a group, or the owner of
// a shard. Nothing tells a member from who holds a shared lock.
func (t *tally) standsByDesign(l lines.Line) bool {
	if len(l.Contenders) == 0 {
		return false
	}
	kind := l.Contenders[0].Kind
	return kind == rules.Lead || kind == rules.Reader || t.isShard(l.Name)
}

// isShard reports whether a line is one of recipes/shards: "jobs/3", where "jobs/members" is a group. Nothing else tells it from a lock.
func (t *tally) isShard(name string) bool {
	at := strings.LastIndexByte(name, '/')
	if at < 0 || !t.shards[name[:at]] {
		return false
	}
	_, err := strconv.ParseUint(name[at+1:], 10, 0)
	return err == nil
}

// shardsOf returns the names of the shards whose groups are on a board.
func shardsOf(b *lines.Board) map[string]bool {
	found := make(map[string]bool)
	for _, l := range b.Lines {
		if name, is := strings.CutSuffix(l.Name, "/members"); is && len(l.Contenders) > 0 && l.Contenders[0].Kind == rules.Reader {
			found[name] = true
		}
	}
	return found
}

func (p *Page) write(b *lines.Board, now time.Time) []byte {
	own := p.choose(b)
	t := tally{shards: shardsOf(b)}
	for _, l := range b.Lines {
		t.add(l, own[l.Name], now)
	}
	up := 0
	if b.State == lines.Live && b.Error == "" {
		up = 1
	}
	asked := p.survey.Asked()
	count := func(n int) []string { return []string{" " + strconv.Itoa(n)} }
	seconds := func(f float64) []string { return []string{" " + number(f)} }
	var out bytes.Buffer
	for _, m := range []struct {
		name, kind, help string
		values           []string
	}{
		{"up", "gauge", "Whether the service answers.", count(up)},
		{"lines", "gauge", "Lines that somebody stands in.", count(len(b.Lines) + b.More)},
		{"holders", "gauge", "Holders in all lines that were read.", count(t.holders)},
		{"waiters", "gauge", "Waiters in all lines that were read.", count(t.waiters)},
		{"circles", "gauge", "Circles of processes that wait for each other.", count(len(b.Circles))},
		{"oldest_wait_seconds", "gauge", "For how long somebody has been waiting at most, candidates of elections left out.", seconds(t.wait)},
		{"oldest_first_seconds", "gauge", "For how long somebody has stood first in a line at most, leaders, owners of shards, members of groups and other shared holders left out.", seconds(t.first)},
		{"oldest_reading_seconds", "gauge", "How old the oldest reading is that these numbers are made of.", seconds(t.age)},
		{"line_holders", "gauge", "Holders in a line.", t.series[0]},
		{"line_waiters", "gauge", "Waiters in a line.", t.series[1]},
		{"line_oldest_wait_seconds", "gauge", "For how long somebody has been waiting in a line at most.", t.series[2]},
		{"line_first_seconds", "gauge", "For how long the first in a line has had its turn or, if that is not known, has stood there.", t.series[3]},
		{"lines_without_series", "gauge", "Lines that are in the totals only.", count(len(b.Lines) + b.More - len(own))},
		{"questions_total", "counter", "Questions that the service was asked.", count(int(asked.Questions))},
		{"question_errors_total", "counter", "Questions that it did not answer.", count(int(asked.Errors))},
		{"question_seconds_total", "counter", "How long its answers have taken.", seconds(asked.Took.Seconds())},
		{"browsers", "gauge", "Browsers that listen.", count(int(p.browsers.Load()))},
	} {
		fmt.Fprintf(&out, "# HELP turnwise_%s %s\n# TYPE turnwise_%s %s\n", m.name, m.help, m.name, m.kind)
		for _, v := range m.values {
			out.WriteString("turnwise_" + m.name + v + "\n")
		}
	}
	return out.Bytes()
}

// choose returns the lines on a board that have series of their own.
func (p *Page) choose(b *lines.Board) map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := make(map[string]bool)
	for _, l := range b.Lines {
		if !p.series[l.Name] && len(p.series) < mostSeries {
			p.series[l.Name] = true
		}
		if p.series[l.Name] {
			own[l.Name] = true
		}
	}
	return own
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', 3, 64) }

func escape(label string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(label)
}
