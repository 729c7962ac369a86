package trace

import (
	"bytes"
	"testing"
)

func FuzzAudit(f *testing.F) {
	f.Add([]byte(on("m", "a").had(1, "lock", 0, 10).had(2, "S1of3", 5, 10).text.String()))
	f.Add([]byte(on("m", "a").says(0, granted, 1, "W").says(5, amended, 1, "R").says(10, lost, 1, "R").text.String()))
	f.Add([]byte(`{"v":1,"time":"2026-`))
	f.Add([]byte(on("m", "a").says(0, released, 1, "").had(2, "S1of1", -10, 10).text.String())) // no kind
	f.Add([]byte(`{"v":1,"time":"2026-11-22T12:00:00Z","event":"granted","line":"a","kind":"S","pid":0,"by":"x",` +
		`"token":"-9223372036854775808","n":9223372036854775807,"ticks":-2305843009213693952,"waited":2305843009213693952}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a := NewAudit(0)
		if a.Read("fuzz", bytes.NewReader(text)) != nil {
			return
		}
		v := a.Verdict()
		_ = v.String()
		for _, w := range v.Wrong {
			_ = w.String()
		}
	})
}
