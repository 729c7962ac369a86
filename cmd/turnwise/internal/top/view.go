// Package top shows a survey of lines on a terminal, redrawn in place, or as a line of text at each change.
package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/coord"
)

// style is how text looks.
type style int

const (
	plain style = iota
	strong
	soft
	good
	warning
	bad
	chosen
)

// canvas is what a view draws on: text at a position, no wider than width.
type canvas interface {
	put(x, y, width int, text string, s style)
	size() (width, height int)
}

// key is what was typed.
type key int

const (
	other key = iota // text
	up
	down
	pageUp
	pageDown
	home
	end
	enter
	escape
	backspace
)

// view is what the user sees. It knows nothing of terminals.
type view struct {
	one    bool // only one line is looked at, which is open
	board  *lines.Board
	filter string
	typing bool   // the filter
	at     string // the line that is chosen
	open   string // the line that is looked into; "": none
	first  int    // the first row shown of what can be scrolled
	page   int    // how many rows were last shown
}

// typed does what a key says. It reports whether that is to quit.
func (v *view) typed(k key, text string) (quit bool) {
	switch {
	case v.typing:
		v.type1(k, text)
	case k == other && text == "q":
		return true
	case k == other && text == "/" && v.open == "":
		v.typing = true
	case k == escape && v.open != "" && !v.one:
		v.open, v.first = "", 0
	case k == escape:
		v.filter = ""
	case k == enter && v.open == "":
		if v.chosen() >= 0 {
			v.open, v.first = v.at, 0
		}
	default:
		v.move(map[key]int{up: -1, down: 1, pageUp: -max(v.page, 1), pageDown: max(v.page, 1), home: -1 << 30, end: 1 << 30}[k])
	}
	return false
}

func (v *view) type1(k key, text string) {
	switch k {
	case enter:
		v.typing = false
	case escape:
		v.typing, v.filter = false, ""
	case backspace:
		r := []rune(v.filter)
		v.filter = string(r[:max(0, len(r)-1)])
	case other:
		v.filter += text
	}
}

// move goes to another line or, where one is open, scrolls.
func (v *view) move(by int) {
	if by == 0 {
		return
	}
	if v.open != "" {
		v.first = max(0, v.first+by)
		return
	}
	shown := v.shown()
	if len(shown) == 0 {
		return
	}
	i := min(max(0, max(v.chosen(), 0)+by), len(shown)-1)
	v.at = shown[i].Name
}

// shown returns the lines that the filter lets through.
func (v *view) shown() []lines.Line {
	if v.board == nil {
		return nil
	}
	if v.filter == "" {
		return v.board.Lines
	}
	wanted := strings.ToLower(v.filter)
	return slices.DeleteFunc(slices.Clone(v.board.Lines), func(l lines.Line) bool {
		return !strings.Contains(strings.ToLower(l.Name), wanted) && !slices.ContainsFunc(l.Contenders, func(c lines.Contender) bool {
			return strings.Contains(strings.ToLower(fmt.Sprintf("%s/%d %s", c.Host, c.PID, c.Label)), wanted)
		})
	})
}

// chosen returns which of the shown lines is chosen: the first if the chosen one has gone, -1 if there is none. A new line
// before it changes nothing, because the choice goes by name.
func (v *view) chosen() int {
	shown := v.shown()
	if len(shown) == 0 {
		return -1
	}
	i, ok := slices.BinarySearchFunc(shown, v.at, func(l lines.Line, name string) int { return strings.Compare(l.Name, name) })
	if !ok {
		i = min(i, len(shown)-1)
		v.at = shown[i].Name
	}
	return i
}

// row is a row of a table.
type row struct {
	cells []string
	style style
}

// draw draws everything.
func (v *view) draw(c canvas, now time.Time) {
	width, height := c.size()
	if v.board == nil || width < 10 || height < 3 {
		return
	}
	v.head(c, width, now)
	if v.open != "" {
		v.drawOpen(c, width, height, now)
	} else {
		v.drawAll(c, width, height, now)
	}
	hint := "q ends  arrows move  / filters  Enter opens a line"
	switch {
	case v.typing:
		hint = "/" + coord.Printable(v.filter) + "_"
	case v.one:
		hint = "q ends  arrows scroll"
	case v.open != "":
		hint = "q ends  arrows scroll  Esc goes back"
	case v.filter != "":
		hint = "/" + coord.Printable(v.filter) + "  Esc shows all"
	}
	c.put(0, height-1, width, hint, soft)
}

// lag is how old a board may be to be called live. There is one every second.
const lag = 3 * time.Second

func (v *view) live(now time.Time) bool {
	return v.board.State == lines.Live && now.Sub(v.board.Time) < lag
}

func (v *view) head(c canvas, width int, now time.Time) {
	b := v.board
	state, s := "live", good
	switch {
	case now.Sub(b.Time) >= lag:
		state, s = "not live: nothing was asked for "+span(now.Sub(b.Time)), warning
	case b.State == lines.Unread && b.Error == "":
		state, s = "reading", soft
	case b.State != lines.Live:
		state, s = "not live", warning
		if b.Error != "" {
			state += ": " + coord.Printable(b.Error)
		}
	}
	waiting, held := 0, 0
	for _, l := range b.Lines {
		waiting += l.Waiting
		if l.Holding > 0 {
			held++
		}
	}
	sum := fmt.Sprintf("%d lines, %d held, %d waiting", len(b.Lines)+b.More, held, waiting)
	if v.one || b.State == lines.Unread {
		sum = ""
	}
	c.put(0, 0, width, coord.Printable(b.Service), strong)
	c.put(0, 1, width, state, s)
	if at := len([]rune(state)) + 3; sum != "" && at < width {
		c.put(at, 1, width-at, sum, soft)
	}
}

func (v *view) drawAll(c canvas, width, height int, now time.Time) {
	shown, at := v.shown(), v.chosen()
	bottom := height - 1 - v.drawCircles(c, width, height)
	room := max(1, bottom-4)
	v.page = room
	if at >= 0 {
		v.first = min(max(v.first, at-room+1), at)
	}
	v.first = max(0, min(v.first, len(shown)-room))
	rows := []row{{[]string{"LINE", "HELD BY", "SINCE", "WAITING", "EXPECTED"}, soft}}
	for i := v.first; i < min(len(shown), v.first+room); i++ {
		rows = append(rows, row{v.cells(shown[i], now), v.look(shown[i], i == at, now)})
	}
	table(c, 3, width, rows)
	switch {
	case len(shown) > 0 || v.board.State == lines.Unread:
	case v.filter != "":
		c.put(0, 4, width, "no line is like that", soft)
	case v.live(now):
		c.put(0, 4, width, "nobody stands in any line", soft)
	default:
		c.put(0, 4, width, "nobody stood in any line", soft)
	}
}

func (v *view) look(l lines.Line, isChosen bool, now time.Time) style {
	switch {
	case isChosen:
		return chosen
	case l.State != lines.Live || !v.live(now):
		return soft
	}
	return plain
}

func (v *view) cells(l lines.Line, now time.Time) []string {
	cells := []string{coord.Printable(l.Name), "", "", "", ""}
	if l.Holding > 0 && len(l.Contenders) > 0 { // the first one holds
		cells[1], cells[2] = who(l.Contenders[0]), since(l.Contenders[0], now)
		if l.Holding > 1 {
			cells[1] += fmt.Sprintf(" and %d more", l.Holding-1)
		}
	}
	if l.Waiting > 0 {
		cells[3] = strconv.Itoa(l.Waiting)
		if l.Oldest != nil {
			cells[3] += " up to " + span(now.Sub(*l.Oldest))
		}
	}
	for _, c := range l.Contenders {
		if c.Expected > 0 {
			cells[4] = "about " + span(time.Duration(c.Expected)*time.Second)
			break
		}
	}
	if note := notLive(l, now); note != "" {
		cells[1] = strings.TrimSpace(cells[1] + " (" + note + ")")
	}
	return cells
}

// notLive says why what is shown of a line may be out of date.
func notLive(l lines.Line, now time.Time) string {
	note := ""
	switch {
	case l.State == lines.Unread && l.Error == "":
		return "not read yet"
	case l.State == lines.Unread:
		note = "cannot be read"
	case l.State == lines.Stale:
		note = "read " + span(now.Sub(*l.AsOf)) + " ago"
	}
	if l.Error != "" {
		note = strings.TrimPrefix(note+": "+coord.Printable(l.Error), ": ")
	}
	return note
}

func who(c lines.Contender) string {
	if c.Host == "" {
		return "?"
	}
	text := fmt.Sprintf("%s/%d", coord.Printable(c.Host), c.PID)
	if c.Label != "" {
		text += ` "` + coord.Printable(c.Label) + `"`
	}
	return text
}

func since(c lines.Contender, now time.Time) string {
	switch {
	case c.Turn != nil:
		return "for " + span(now.Sub(*c.Turn))
	case !c.Since.IsZero():
		return "came " + span(now.Sub(c.Since)) + " ago"
	}
	return ""
}

// span writes a duration in at most two units.
func span(d time.Duration) string {
	s := int(max(0, d) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}

// drawCircles shows who waits for each other, and returns how many rows that took.
func (v *view) drawCircles(c canvas, width, height int) int {
	var texts []string
	for _, circle := range v.board.Circles {
		var parts []string
		for _, w := range circle.Waits {
			parts = append(parts, fmt.Sprintf("%s waits for %s in %s", coord.Printable(w.From), coord.Printable(w.To), coord.Printable(w.Line)))
		}
		if circle.More > 0 {
			parts = append(parts, fmt.Sprintf("and %d more", circle.More))
		}
		texts = append(texts, "circle: "+strings.Join(parts, "; "))
	}
	texts = texts[:min(len(texts), max(0, height/4))]
	for i, t := range texts {
		c.put(0, height-1-len(texts)+i, width, t, bad)
	}
	return len(texts)
}

func (v *view) drawOpen(c canvas, width, height int, now time.Time) {
	var l lines.Line
	for _, x := range v.board.Lines {
		if x.Name == v.open {
			l = x
		}
	}
	c.put(0, 2, width, coord.Printable(v.open), strong)
	if note := notLive(l, now); l.Name != "" && note != "" {
		at := min(len([]rune(coord.Printable(v.open)))+2, width-1)
		c.put(at, 2, width-at, note, warning)
	}
	room := max(1, height-5)
	v.page = room
	v.first = max(0, min(v.first, len(l.Contenders)-room))
	rows := []row{{[]string{"", "WHO", "HAS OR WANTS", "CAME", "TOKEN", "ID"}, soft}}
	if slices.ContainsFunc(l.Contenders, func(x lines.Contender) bool { return remark(x) != "" }) {
		rows[0].cells = append(rows[0].cells, "VALUE")
	}
	for _, x := range l.Contenders[v.first:min(len(l.Contenders), v.first+room)] {
		s := plain
		if x.Holds {
			s = strong
		}
		if l.State != lines.Live || !v.live(now) {
			s = soft
		}
		rows = append(rows, row{contender(x, now)[:len(rows[0].cells)], s})
	}
	if width < 90 { // the columns that people need least give way
		for i := range rows {
			rows[i].cells = rows[i].cells[:5]
		}
	}
	switch {
	case len(l.Contenders) == 0 && l.State != lines.Unread:
		c.put(0, 3, width, "nobody", soft)
		return
	case v.first+room >= len(l.Contenders) && l.More > 0:
		rows = append(rows, row{[]string{fmt.Sprintf("and %d more", l.More)}, soft})
	}
	table(c, 3, width, rows)
}

func contender(x lines.Contender, now time.Time) []string {
	state := "holds"
	if x.Holds && x.Turn != nil {
		state += " for " + span(now.Sub(*x.Turn))
	}
	if !x.Holds {
		state = fmt.Sprintf("%d.", x.Position)
		if x.Expected > 0 {
			state += " in about " + span(time.Duration(x.Expected)*time.Second)
		}
	}
	came := ""
	if !x.Since.IsZero() {
		came = span(now.Sub(x.Since)) + " ago"
	}
	return []string{state, who(x), x.Mode, came, x.Token, coord.Printable(x.ID), coord.Printable(remark(x))}
}

// remark is what a contender says beside what all do.
func remark(x lines.Contender) string {
	if x.Asks != "" {
		return strings.TrimSpace(x.Value + " asks to let go: " + x.Asks)
	}
	return x.Value
}

// table draws rows from y on. Columns are as wide as their contents; if that is too much, the widest give way.
func table(c canvas, y, width int, rows []row) {
	var widths []int
	for _, r := range rows {
		for i, cell := range r.cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if len(r.cells) > 1 {
				widths[i] = max(widths[i], len([]rune(cell)))
			}
		}
	}
	const gap = 2
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	for sum > width {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= 4 {
			break
		}
		widths[widest]--
		sum--
	}
	for i, r := range rows {
		if r.style == chosen {
			c.put(0, y+i, width, strings.Repeat(" ", width), chosen)
		}
		x := 0
		for j, cell := range r.cells {
			room := widths[j]
			if j == len(r.cells)-1 {
				room = width - x
			}
			if x < width {
				c.put(x, y+i, min(room, width-x), cell, r.style)
			}
			x += widths[j] + gap
		}
	}
}
