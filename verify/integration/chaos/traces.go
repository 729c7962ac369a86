package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/trace"
)

// auditAll judges traces. lost is when the service was away, before it came back with an earlier state.
//
// That state knows nothing of those who came since. Their numbers are given again, also to who had asked before they came, and could not
// join. He seems to have come first, and has the line after they had it. So nobody is out of turn beside those who were let in on the other
// side of such a time. That two are let in at once is as wrong as ever.
func auditAll(paths []string, lost []pause) (*trace.Verdict, error) {
	v, err := auditBetween(paths, 0, forever)
	if err != nil || len(lost) == 0 {
		return v, err
	}
	isOutOfTurn := func(f trace.Finding) bool { return f.What == trace.OutOfTurn }
	v.Wrong = slices.DeleteFunc(v.Wrong, isOutOfTurn)
	from := time.Duration(0)
	for _, l := range append(slices.Clone(lost), pause{from: forever}) {
		part, err := auditBetween(paths, from, l.from)
		if err != nil {
			return nil, err
		}
		for _, f := range part.Wrong {
			if isOutOfTurn(f) {
				v.Wrong = append(v.Wrong, f)
			}
		}
		from = l.to
	}
	return v, nil
}

// auditBetween judges what traces tell of those who were let in during a span of time. All that was before, and all of those who were let in
// afterwards, is blank to it; so the verdict has the numbers of the lines as they are.
func auditBetween(paths []string, from, to time.Duration) (*trace.Verdict, error) {
	a := trace.NewAudit(0)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) { // its worker was killed before it had begun
			continue
		}
		if err != nil {
			return nil, err
		}
		type turn struct{ By, ID string }
		type record struct {
			turn
			Event string
			Ticks time.Duration // as mono shows
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		records, in := make([]record, len(lines)), map[turn]bool{}
		for i, line := range lines {
			r := &records[i]
			if json.Unmarshal(line, r) != nil {
				*r = record{Ticks: from}
			}
			in[r.turn] = in[r.turn] || r.Ticks <= to && (r.Event == "granted" || to == forever)
		}
		for i, r := range records {
			if r.Ticks < from || r.Ticks > to && r.ID != "" && !in[r.turn] {
				lines[i] = []byte("\n")
			}
		}
		if err := a.Read(path, bytes.NewReader(bytes.Join(lines, nil))); err != nil {
			return nil, err
		}
	}
	return a.Verdict(), nil
}
