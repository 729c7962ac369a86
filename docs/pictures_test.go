package docs

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

var draw = flag.Bool("draw", false, "write the pictures of recipes.md anew")

// picture is a line, or several of them, as they stand at one moment.
type picture struct {
	says string // for those who cannot see it
	rows []row
}

// row is one line. Whose turn it is, and whom each one watches, is what the rules say of the kinds in it.
type row struct {
	name, memo string
	boxes      []box
	frame      [2]int // boxes that are one node at the service, or one round: from, and up to without; none if both are 0
	below      []remark
}

// box is somebody who stands in a line, or with no kind somebody who does not.
type box struct {
	who, as string
	kind    string
	state   string // instead of what the rules say
	watches []int  // likewise
}

// remark stands below some boxes: an arrow from the first to the last if moves is set, else a bracket.
type remark struct {
	from, to int
	moves    bool
	text     string
}

var three = func(n int64) string { return rules.Permits(n, 3) }

var pictures = map[string]picture{
	"mutex": {"A holds the mutex. B, C and D wait, and each watches the one right ahead.", []row{{name: "orders", boxes: []box{
		{who: "A", kind: rules.Lock}, {who: "B", kind: rules.Lock}, {who: "C", kind: rules.Lock}, {who: "D", kind: rules.Lock}}}}},
	"rwlock": {"Two readers hold. A writer waits and watches the nearest of them. Two more readers wait behind the writer, and both watch it.", []row{{name: "report",
		boxes: []box{{who: "A", as: "reads", kind: rules.Reader}, {who: "B", as: "reads", kind: rules.Reader}, {who: "C", as: "writes", kind: rules.Writer},
			{who: "D", as: "reads", kind: rules.Reader}, {who: "E", as: "reads", kind: rules.Reader}}}}},
	"semaphore": {"Of three permits A has two and B one. C wants two and watches A and B. D wants one and waits behind C: it watches B and C.", []row{{name: "downloads: 3 permits",
		boxes: []box{{who: "A", as: "2 permits", kind: three(2)}, {who: "B", as: "1 permit", kind: three(1)}, {who: "C", as: "wants 2", kind: three(2)}, {who: "D", as: "wants 1", kind: three(1)}}}}},
	"election": {"A leads. B and C are candidates, each of which watches the one right ahead. Whoever observes stands nowhere and watches the first.", []row{{name: "scheduler", boxes: []box{
		{who: "A", as: "10.0.0.7:80", kind: rules.Lead, state: "leads"}, {who: "B", as: "10.0.0.8:80", kind: rules.Lead}, {who: "C", as: "10.0.0.9:80", kind: rules.Lead},
		{who: "somebody", as: "stands nowhere", state: "observes", watches: []int{0}}}}}},
	"rank": {"A, of rank 1, has won while C, of rank 5, stands. So A goes back to the end of the line before its caller has heard that it leads. Then B, without a rank, leads.", []row{{name: "scheduler", boxes: []box{
		{who: "A", as: "rank 1", kind: rules.Lead, state: "gives way", watches: []int{1, 2}}, {who: "B", as: "no rank", kind: rules.Lead}, {who: "C", as: "rank 5", kind: rules.Lead}, {who: "A again", as: "rank 1", state: "then waits here"}},
		below: []remark{{0, 3, true, "back to the end, since a better one stands"}}}}},
	"multi": {"X wants a, b and c. It holds a, waits in b behind Y, and does not stand in c yet. Y holds b and waits in c behind Z.", []row{
		{name: "a", boxes: []box{{who: "X", as: "a, b and c", kind: rules.Writer}}},
		{name: "b", boxes: []box{{who: "Y", as: "b and c", kind: rules.Writer}, {who: "X", as: "a, b and c", kind: rules.Writer}}},
		{name: "c", boxes: []box{{who: "Z", as: "c alone", kind: rules.Writer}, {who: "Y", as: "b and c", kind: rules.Writer}}}}},
	"once": {"A has run slot 17 and noted it in the line's memo. B and C wait to run slot 17 as well: each finds the note and runs nothing.", []row{{name: "nightly", memo: "slot 17 was run", boxes: []box{
		{who: "A", as: "has run 17", kind: rules.Lock}, {who: "B", as: "came to run 17", kind: rules.Lock}, {who: "C", as: "came to run 17", kind: rules.Lock}},
		below: []remark{{1, 2, false, "read the memo, run nothing"}}}}},
	"together": {"Three goroutines of process 1 share one node: the first has its turn, the others wait in memory. Process 2 stands behind, and watches that node.", []row{{name: "orders", frame: [2]int{0, 3}, boxes: []box{
		{who: "goroutine 1", as: "process 1", kind: rules.Lock}, {who: "goroutine 2", as: "process 1", kind: rules.Lock, state: "waits in memory", watches: []int{}},
		{who: "goroutine 3", as: "process 1", kind: rules.Lock, state: "waits in memory", watches: []int{}}, {who: "process 2", kind: rules.Lock}},
		below: []remark{{0, 2, false, "one node at the service"}}}}},
	"asking": {"B waits and asks A to let go. A hears of it, since it watches who stands behind, and lets go when it likes.", []row{{name: "nightly", boxes: []box{
		{who: "A", as: "Hold.Wanted", kind: rules.Lock}, {who: "B", as: "asks: disk full", kind: rules.Lock}, {who: "C", kind: rules.Lock}},
		below: []remark{{1, 0, true, "please let go"}}}}},
	"maxhold": {"A holds for ten minutes at most: then its hold ends by itself, and B, that waits, is next.", []row{{name: "orders", boxes: []box{
		{who: "A", as: "MaxHold 10 min", kind: rules.Lock}, {who: "B", kind: rules.Lock}},
		below: []remark{{0, 0, false, "ends by itself"}}}}},
	"group": {"A, B and C are members: all of them stand at once, and nobody waits. Whoever watches sees the whole line.", []row{{name: "workers", boxes: []box{
		{who: "A", as: "10.0.0.7", kind: rules.Reader, state: "is a member"}, {who: "B", as: "10.0.0.8", kind: rules.Reader, state: "is a member"}, {who: "C", as: "10.0.0.9", kind: rules.Reader, state: "is a member"}},
		below: []remark{{0, 2, false, "a view: all of them, in this order"}}}}},
	"shards": {"A and B are members of the group, and C has just come. Each shard has a mutex. A holds shard 0. B still holds shard 1, which is to be C's: C waits until B's work has stopped.", []row{
		{name: "partitions/members", boxes: []box{{who: "A", kind: rules.Reader, state: "is a member"}, {who: "B", kind: rules.Reader, state: "is a member"}, {who: "C", as: "has just come", kind: rules.Reader, state: "is a member"}}},
		{name: "partitions/0", boxes: []box{{who: "A", as: "its own", kind: rules.Lock}}},
		{name: "partitions/1", boxes: []box{{who: "B", as: "stops its work", kind: rules.Lock}, {who: "C", as: "owns it next", kind: rules.Lock}}}}},
	"barrier": {"It takes three. A, B and C have come, so A, which is first, has noted that round 7 reaches up to C. D waits for round 8.", []row{{name: "step: 3 at a time", memo: "round 7: up to C", frame: [2]int{0, 3}, boxes: []box{
		{who: "A", as: "first, writes", kind: rules.Reader, state: "goes on"}, {who: "B", kind: rules.Reader, state: "goes on"}, {who: "C", kind: rules.Reader, state: "goes on"}, {who: "D", kind: rules.Reader, state: "waits for 8"}},
		below: []remark{{0, 2, false, "round 7"}}}}},
}

// stand says what each of a row does, and whom it watches.
func (r row) stand() (boxes []box) {
	var nodes []driver.Node
	for i, b := range r.boxes {
		if b.kind != "" {
			nodes = append(nodes, driver.Node{Kind: b.kind, Token: driver.Token(i + 1)})
		}
	}
	for i, turn := range rules.Turns(nodes) {
		b := r.boxes[i] // who stands nowhere comes last
		if b.state == "" {
			b.state = map[bool]string{true: "holds", false: "waits"}[turn]
		}
		if b.watches == nil {
			for _, n := range rules.For(b.kind)(nodes[i], nodes[:i]) {
				b.watches = append(b.watches, int(n.Token)-1)
			}
		}
		boxes = append(boxes, b)
	}
	return append(boxes, r.boxes[len(nodes):]...)
}

const (
	boxWide, boxHigh, boxGap = 124, 58, 22
	fits                     = 18 // characters in a box
	edge                     = 16
	level                    = 30 // of what is below
)

func left(i int) int { return edge + i*(boxWide+boxGap) }

func (p picture) svg() string {
	var body strings.Builder
	y, wide := 0, 0
	for _, r := range p.rows {
		y = r.drawn(&body, y)
		wide = max(wide, left(len(r.boxes))-boxGap+edge)
	}
	for i, key := range []string{"has its turn", "waits"} {
		fmt.Fprintf(&body, `<rect x="%d" y="%d" width="18" height="12" rx="3" class="%s"/>`+"\n", edge+i*110, y+14, []string{"on", "off"}[i])
		put(&body, edge+24+i*110, y+24, "start", "small", key)
	}
	x := edge + 190
	fmt.Fprintf(&body, `<path d="M%d %dH%d" class="watch" marker-end="url(#head)"/>`+"\n", x+24, y+20, x+4)
	put(&body, x+32, y+24, "start", "small", "watches")
	wide, y = max(wide, x+110), y+38
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img" aria-label="%[4]s">
<title>%[4]s</title>
<style>
text { font: 12px sans-serif; fill: #1f2328 } .who, .name { font-weight: bold } .small { font-size: 11px; fill: #59636e }
.ground { fill: #fff } .on { fill: #cfe5ff; stroke: #0b5cbf; stroke-width: 2 } .off { fill: #f3f5f7; stroke: #8c959f }
.memo { fill: #fff5c2; stroke: #9a6700 } .watch { fill: none; stroke: #b3460a; stroke-width: 1.5 } .head { fill: #b3460a }
.frame, .out { fill: none; stroke: #59636e; stroke-dasharray: 4 3 } .mark { fill: none; stroke: #59636e } .tip { fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9da7b3 } .ground { fill: #0d1117 } .on { fill: #0c3a70; stroke: #6cb0ff } .off { fill: #1c2128; stroke: #768390 }
.memo { fill: #3b2e00; stroke: #d4a72c } .watch { stroke: #ff9a57 } .head { fill: #ff9a57 } .frame, .out, .mark { stroke: #9da7b3 } .tip { fill: #9da7b3 }
}
</style>
<defs>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="head"/></marker>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker>
</defs>
<rect width="100%%" height="100%%" rx="6" class="ground"/>
%[5]s</svg>
`, wide, y, y, escaped(p.says), body.String())
}

// drawn draws a row below y, and returns where it ends.
func (r row) drawn(to *strings.Builder, y int) int {
	boxes := r.stand()
	put(to, edge, y+22, "start", "name", r.name)
	if r.memo != "" {
		x := edge + 8*len(r.name) + 12
		fmt.Fprintf(to, `<rect x="%d" y="%d" width="%d" height="20" class="memo"/>`+"\n", x, y+8, 7*len(r.memo)+52)
		put(to, x+8, y+22, "start", "", "memo: "+r.memo)
	}
	rise := 0
	for i, b := range boxes {
		for _, w := range b.watches {
			rise = max(rise, arc(i, w))
		}
	}
	top := y + 40 + rise
	if r.frame[1] > 0 {
		top += 8
		x := left(r.frame[0]) - 8
		fmt.Fprintf(to, `<rect x="%d" y="%d" width="%d" height="%d" rx="8" class="frame"/>`+"\n", x, top-8, left(r.frame[1])-boxGap+8-x, boxHigh+16)
	}
	framed := func(i int) bool { return i >= r.frame[0] && i < r.frame[1] }
	for i, b := range boxes {
		class := "off"
		switch {
		case b.kind == "":
			class = "out"
		case i < 1 || slices.Contains([]string{"holds", "is a member", "goes on"}, b.state):
			class = "on"
		}
		fmt.Fprintf(to, `<rect x="%d" y="%d" width="%d" height="%d" rx="5" class="%s"/>`+"\n", left(i), top, boxWide, boxHigh, class)
		under := top + 18
		if b.as == "" {
			under += 8
		}
		for n, s := range []string{b.who, b.as, b.state} {
			if s != "" {
				put(to, left(i)+boxWide/2, under, "middle", []string{"who", "small", ""}[n], s)
				under += 16
			}
		}
		for _, w := range b.watches {
			from, at, end := left(i)+boxWide/2-12, left(w)+boxWide/2+12, top-2
			if w > i {
				from, at = from+48, at-48
			}
			if framed(w) && !framed(i) {
				end -= 8
			}
			fmt.Fprintf(to, `<path d="M%d %dC%d %d %d %d %d %d" class="watch" marker-end="url(#head)"/>`+"\n",
				from, top, from, top-arc(i, w)*4/3, at, top-arc(i, w)*4/3, at, end)
		}
	}
	y = top + boxHigh + 6
	if r.frame[1] > 0 {
		y += 8
	}
	for _, b := range r.below {
		from, at := left(min(b.from, b.to))+8, left(max(b.from, b.to))+boxWide-8
		if b.moves {
			from, at = left(b.from)+boxWide/2, left(b.to)+boxWide/2
			fmt.Fprintf(to, `<path d="M%d %dV%dH%dV%d" class="mark" marker-end="url(#tip)"/>`+"\n", from, y-4, y+6, at, y-3)
		} else {
			fmt.Fprintf(to, `<path d="M%d %dV%dH%dV%d" class="mark"/>`+"\n", from, y, y+6, at, y)
		}
		put(to, (from+at)/2, y+20, "middle", "small", b.text)
		y += level
	}
	return y
}

// arc is how high a watch goes from one box to another.
func arc(from, to int) int { return 14 + 10*max(from-to, to-from) }

func put(to *strings.Builder, x, y int, anchor, class, s string) {
	if s != "" {
		fmt.Fprintf(to, `<text x="%d" y="%d" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, escaped(s))
	}
}

func escaped(s string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(s))
	return out.String()
}

func TestThePicturesAreThoseOfTheRules(t *testing.T) {
	page := read(t, "recipes.md")
	for name, p := range pictures {
		file := filepath.Join("pictures", name+".svg")
		if *draw {
			if err := os.WriteFile(file, []byte(p.svg()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if was, err := os.ReadFile(file); err != nil || string(was) != p.svg() {
			t.Errorf("%s is stale: go test ./docs -run Pictures -draw (%v)", file, err)
		}
		if !strings.Contains(page, "\n!["+p.says+"]("+filepath.ToSlash(file)+")\n") {
			t.Errorf("recipes.md does not show\n![%s](%s)", p.says, file)
		}
		for d := xml.NewDecoder(strings.NewReader(p.svg())); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for _, r := range p.rows {
			for _, b := range r.boxes {
				if max(len(b.who), len(b.as), len(b.state)) > fits {
					t.Errorf("%s: what %s says does not fit its box", name, b.who)
				}
			}
		}
	}
	files, err := filepath.Glob("pictures/*")
	if err != nil || len(files) != len(pictures) {
		t.Errorf("in pictures there are %v, %v", files, err)
	}
}
