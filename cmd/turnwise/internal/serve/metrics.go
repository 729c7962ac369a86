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

func (p *Page) write(b *lines.Board, now time.Time) []byte {
	own := p.choose(b)
	var out bytes.Buffer
	put := func(name, kind, help string, values ...string) {
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		for _, v := range values {
			out.WriteString(name + v + "\n")
		}
	}
	up, holders, waiters := 0, 0, 0
	var wait, age float64
	var held, waiting, longest []string
	for _, l := range b.Lines {
		if l.AsOf == nil {
			continue
		}
		holders += l.Holding
		waiters += l.Waiting
		oldest := 0.0
		if l.Oldest != nil {
			oldest = max(0, now.Sub(*l.Oldest).Seconds())
		}
		wait, age = max(wait, oldest), max(age, now.Sub(*l.AsOf).Seconds())
		if own[l.Name] {
			label := `{line="` + escape(l.Name) + `"} `
			held = append(held, label+strconv.Itoa(l.Holding))
			waiting = append(waiting, label+strconv.Itoa(l.Waiting))
			longest = append(longest, label+number(oldest))
		}
	}
	if b.State == lines.Live && b.Error == "" {
		up = 1
	}
	asked := p.survey.Asked()
	count := func(n int) string { return " " + strconv.Itoa(n) }
	put("turnwise_up", "gauge", "Whether the service answers.", count(up))
	put("turnwise_lines", "gauge", "Lines that somebody stands in.", count(len(b.Lines)+b.More))
	put("turnwise_holders", "gauge", "Holders in all lines that were read.", count(holders))
	put("turnwise_waiters", "gauge", "Waiters in all lines that were read.", count(waiters))
	put("turnwise_circles", "gauge", "Circles of processes that wait for each other.", count(len(b.Circles)))
	put("turnwise_oldest_wait_seconds", "gauge", "For how long somebody has been waiting at most.", " "+number(wait))
	put("turnwise_oldest_reading_seconds", "gauge", "How old the oldest reading is that these numbers are made of.", " "+number(age))
	put("turnwise_line_holders", "gauge", "Holders in a line.", held...)
	put("turnwise_line_waiters", "gauge", "Waiters in a line.", waiting...)
	put("turnwise_line_oldest_wait_seconds", "gauge", "For how long somebody has been waiting in a line at most.", longest...)
	put("turnwise_lines_without_series", "gauge", "Lines that are in the totals only.", count(len(b.Lines)+b.More-len(own)))
	put("turnwise_questions_total", "counter", "Questions that the service was asked.", count(int(asked.Questions)))
	put("turnwise_question_errors_total", "counter", "Questions that it did not answer.", count(int(asked.Errors)))
	put("turnwise_question_seconds_total", "counter", "How long its answers have taken.", " "+number(asked.Took.Seconds()))
	put("turnwise_browsers", "gauge", "Browsers that listen.", count(int(p.browsers.Load())))
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
