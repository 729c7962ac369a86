package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"time"
)

// plot draws the medians of a work as bars, with a line from the least to the most. If they differ a lot the scale is
// logarithmic, and says so.
func plot(w *Work, results []Result) string {
	const left, width, right, row, gap = 300, 420, 90, 18, 14
	least, most := time.Duration(math.MaxInt64), time.Duration(0)
	for _, r := range results {
		if low, _, high := r.spread(); high > 0 {
			least, most = min(least, low), max(most, high)
		}
	}
	if most == 0 {
		return ""
	}
	logarithmic := float64(most)/float64(least) > 20
	floor := math.Pow(10, math.Floor(math.Log10(float64(least))))
	at := func(d time.Duration) float64 {
		if logarithmic {
			return width * math.Log(float64(d)/floor) / math.Log(float64(most)/floor)
		}
		return width * float64(d) / float64(most)
	}

	var body strings.Builder
	text := func(x, y float64, anchor, class, s string) {
		fmt.Fprintf(&body, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, escaped(s))
	}
	title := w.Title + ": time per " + w.Unit + ", median, least and most"
	if logarithmic {
		title += " (logarithmic)"
	}
	text(10, 20, "start", "title", title)
	y := 34.0
	last := ""
	for _, r := range results {
		low, mid, high := r.spread()
		if mid == 0 {
			continue
		}
		if r.Case != last {
			y += gap
			text(10, y+12, "start", "case", r.Case)
			y += row
			last = r.Case
		}
		class := "peer"
		switch {
		case r.Ours:
			class = "ours"
		case r.Bare:
			class = "bare"
		}
		text(left-8, y+13, "end", "who", string(r.Service)+"  "+r.Contestant)
		fmt.Fprintf(&body, `<rect x="%d" y="%.1f" width="%.1f" height="%d" class="%s"/>`+"\n", left, y+2, math.Max(1, at(mid)), row-4, class)
		fmt.Fprintf(&body, `<path d="M%.1f %.1fH%.1f" class="spread"/>`+"\n", left+at(low), y+row/2, left+at(high))
		text(left+at(high)+6, y+13, "start", "figure", shown(mid))
		y += row
	}
	height := y + 16
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="%d" height="%.0f" role="img" aria-label="%s">
<style>
text { font: 12px sans-serif; fill: #333 } .title, .case { font-weight: bold } .figure { font-size: 11px }
.ours { fill: #2a7de1 } .peer { fill: #b9bec6 } .bare { fill: #6f7782 } .spread { stroke: #222; stroke-width: 1.5 }
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
%s</svg>
`, left+width+right, height, left+width+right, height, escaped(title), body.String())
}

func escaped(s string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(s))
	return out.String()
}
