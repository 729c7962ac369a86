package top

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
)

// sheet is a canvas of characters.
type sheet struct {
	t             *testing.T
	width, height int
	cells         map[[2]int]rune
	styles        map[int]style // of the rows
}

func (s *sheet) size() (int, int) { return s.width, s.height }

func (s *sheet) put(x, y, width int, text string, look style) {
	if x < 0 || y < 0 || y >= s.height || width < 0 || x+width > s.width {
		s.t.Errorf("%q at %d,%d, %d wide, is outside of %dx%d", text, x, y, width, s.width, s.height)
	}
	for i, r := range []rune(text) {
		if i < width {
			s.cells[[2]int{x + i, y}] = r
		}
	}
	s.styles[y] = look
}

func (s *sheet) String() string {
	var b strings.Builder
	for y := range s.height {
		row := ""
		for x := range s.width {
			if r := s.cells[[2]int{x, y}]; r != 0 {
				row += string(r)
			} else {
				row += " "
			}
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	return b.String()
}

func (v *view) on(t *testing.T, width, height int) *sheet {
	s := &sheet{t, width, height, make(map[[2]int]rune), make(map[int]style)}
	v.draw(s, noon)
	return s
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time {
	t := noon.Add(-d)
	return &t
}

func line(name string, waiting int) lines.Line {
	l := lines.Line{Name: name, State: lines.Live, AsOf: ago(0), Holding: 1, Waiting: waiting}
	for i := range waiting + 1 {
		l.Contenders = append(l.Contenders, lines.Contender{Mode: "exclusive", Holds: i == 0, Position: i, Holder: &status.Holder{
			ID: fmt.Sprint("id", i), Host: "host-a", PID: 4711 + i, Label: "nightly", Since: *ago(time.Minute), Token: fmt.Sprint(256 * i)}})
	}
	return l
}

func board(all ...lines.Line) *lines.Board {
	return &lines.Board{Time: noon, Service: "mem", State: lines.Live, Lines: all}
}

func TestAllLines(t *testing.T) {
	v := &view{board: board(line("a", 0), line("shop/orders", 2))}
	v.board.Lines[1].Contenders[1].Expected = 75
	v.board.Circles = []lines.Circle{{Waits: []lines.Wait{{From: "P/1", To: "Q/1", Line: "a"}, {From: "Q/1", To: "P/1", Line: "b"}}, More: 3}}
	assert.Equal(t, `mem
live   2 lines, 2 held, 2 waiting

LINE         HELD BY                SINCE           WAITING  EXPECTED
a            host-a/4711 "nightly"  came 1m00s ago
shop/orders  host-a/4711 "nightly"  came 1m00s ago  2        about 1m15s


circle: P/1 waits for Q/1 in a; Q/1 waits for P/1 in b; and 3 more
q ends  arrows move  / filters  Enter opens a line
`, v.on(t, 80, 10).String())
}

func TestOneLine(t *testing.T) {
	l := line("a", 2)
	l.Contenders[0].Turn = ago(90 * time.Minute)
	l.Contenders[1].Expected = 75
	v := &view{one: true, open: "a", board: board(l)}
	assert.Equal(t, `mem
live
a
                   WHO                    HAS OR WANTS  CAME       TOKEN  ID
holds for 1h30m    host-a/4711 "nightly"  exclusive     1m00s ago  0      id0
1. in about 1m15s  host-a/4712 "nightly"  exclusive     1m00s ago  256    id1
2.                 host-a/4713 "nightly"  exclusive     1m00s ago  512    id2

q ends  arrows scroll
`, v.on(t, 90, 9).String())
	assert.NotContains(t, v.on(t, 80, 9).String(), "ID")
	v.board = board(lines.Line{Name: "a", State: lines.Live, AsOf: ago(0)})
	assert.Contains(t, v.on(t, 80, 9).String(), "\na\nnobody\n")
}

func TestTheWidestColumnGivesWay(t *testing.T) {
	s := &sheet{t, 30, 1, make(map[[2]int]rune), make(map[int]style)}
	table(s, 0, 30, []row{{cells: []string{"short", strings.Repeat("x", 40), "last"}}})
	assert.Equal(t, "short  "+strings.Repeat("x", 17)+"  last", strings.TrimRight(s.String(), " \n"))
}

func TestWhatIsNotSoNowIsNotShownAsIfItWere(t *testing.T) {
	stale := line("a", 0)
	stale.State, stale.AsOf = lines.Stale, ago(12*time.Second)
	v := &view{board: board(stale, line("b", 0))}
	v.at = "b"
	s := v.on(t, 100, 10)
	assert.Contains(t, s.String(), `(read 12s ago)`)
	assert.Equal(t, soft, s.styles[4])

	v.board.State, v.board.Error = lines.Stale, "service is out of reach"
	s = v.on(t, 100, 10)
	assert.Contains(t, s.String(), "not live: service is out of reach")
	assert.Equal(t, soft, s.styles[4])

	v = &view{board: board(line("b", 0), line("c", 0))}
	v.board.Time = *ago(10 * time.Second)
	v.at = "c"
	s = v.on(t, 100, 10)
	assert.Contains(t, s.String(), "not live: nothing was asked for 10s")
	assert.Equal(t, soft, s.styles[4])
}

func TestKeys(t *testing.T) {
	var all []lines.Line
	for i := range 100 {
		all = append(all, line(fmt.Sprintf("line%02d", i), i%3))
	}
	v := &view{board: board(all...)}
	which := func() string {
		s := v.on(t, 80, 20)
		for y, look := range s.styles {
			if look == chosen {
				return strings.Fields(strings.Split(s.String(), "\n")[y])[0]
			}
		}
		return "none"
	}
	press := func(keys ...key) {
		for _, k := range keys {
			require.False(t, v.typed(k, ""))
			v.on(t, 80, 20)
		}
	}
	write := func(text string) {
		for _, r := range text {
			require.False(t, v.typed(other, string(r)))
		}
	}
	assert.Equal(t, "line00", which())
	press(up)
	assert.Equal(t, "line00", which())
	press(down, down)
	assert.Equal(t, "line02", which())
	press(end)
	assert.Equal(t, "line99", which())
	press(down, pageUp)
	assert.Equal(t, "line84", which())
	press(home, pageDown)
	assert.Equal(t, "line15", which())

	// What is chosen stays chosen when others come and go. When it goes, another one is chosen.
	v.board = board(append([]lines.Line{line("another", 0)}, all...)...)
	assert.Equal(t, "line15", which())
	v.board = board(append(append([]lines.Line{}, all[:15]...), all[16:]...)...)
	assert.Equal(t, "line16", which())
	v.board = board(all...)

	press(enter)
	assert.Contains(t, v.on(t, 80, 20).String(), "\nline16\n")
	press(down, down, escape)
	assert.Equal(t, "line16", which())

	require.False(t, v.typed(other, "/"))
	write("LINE9q")
	press(backspace)
	assert.Equal(t, "line90", which())
	press(enter, down)
	assert.Equal(t, "line91", which())
	press(escape)
	assert.Len(t, v.shown(), 100)
	require.False(t, v.typed(other, "/"))
	write("nobody")
	assert.Equal(t, "none", which())
	press(down, enter, enter)
	assert.Empty(t, v.open)
	press(backspace, escape, escape)
	assert.True(t, v.typed(other, "q"))
}

// A terminal may have any size, and a board anything on it.
func FuzzDraw(f *testing.F) {
	f.Add(80, 24, "a", "label", "/x", uint8(3), 5)
	f.Add(1, 1, "", "\x1b[2J", "q", uint8(0), -1)
	f.Add(20, 5, "日本語", "\u202e", "", uint8(20), 1000)
	f.Fuzz(func(t *testing.T, width, height int, name, label, typed string, n uint8, by int) {
		if width < 0 || height < 0 || width > 500 || height > 500 {
			return
		}
		var all []lines.Line
		for i := range n {
			l := line(fmt.Sprint(name, i), int(i))
			l.Contenders[0].Label, l.Contenders[0].Host, l.Contenders[0].Value = label, label, name
			all = append(all, l)
		}
		b := board(all...)
		b.Circles = []lines.Circle{{Waits: []lines.Wait{{From: label, To: name, Line: typed}}}}
		v := &view{board: b}
		for _, k := range []key{down, enter, end, pageUp, escape, up} {
			v.typed(k, "")
			v.move(by)
			text := v.on(t, width, height).String()
			if strings.ContainsAny(text, "\x1b\u202e\x00\r") {
				t.Errorf("%q", text)
			}
		}
		for _, r := range typed {
			v.typed(other, string(r))
			v.on(t, width, height)
		}
	})
}

func TestWhatIsPrinted(t *testing.T) {
	printed := func(now, before *lines.Board, asJSON bool) string {
		var b bytes.Buffer
		require.NoError(t, printChanges(&b, now, before, asJSON))
		return b.String()
	}
	none := &lines.Board{}
	at := noon.Local().Format(time.TimeOnly)
	one := board(line("a", 1))
	assert.Equal(t, at+` a held by host-a/4711 "nightly" as exclusive with token 0; 1 waiting`+"\n", printed(one, none, false))
	assert.Empty(t, printed(one, one, false))
	stale := line("a", 1)
	stale.State = lines.Stale
	assert.Empty(t, printed(board(stale), one, false), "who holds has not changed")
	assert.Empty(t, printed(board(lines.Line{Name: "a", State: lines.Unread}), none, false))
	assert.Equal(t, at+" a nobody\n", printed(board(), one, false))
	assert.Contains(t, printed(one, none, true), `"line":{"name":"a","state":"live"`)
	assert.Contains(t, printed(board(), one, true), `"gone":"a"`)
	assert.Error(t, printChanges(broken{}, one, none, false))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestAnOpenLineShowsWhatSomebodyAsks(t *testing.T) {
	v := &view{board: &lines.Board{Time: noon, State: lines.Live, Lines: []lines.Line{{Name: "a", State: lines.Live, Holding: 1, Waiting: 1, Contenders: []lines.Contender{
		{Holder: &status.Holder{ID: "1", Host: "h", PID: 1, Token: "7"}, Mode: "exclusive", Holds: true},
		{Holder: &status.Holder{ID: "2", Host: "h", PID: 2, Token: "9"}, Mode: "exclusive", Position: 1, Asks: "the disk\nis full"},
	}}}}, open: "a", one: true}
	assert.Contains(t, v.on(t, 120, 12).String(), `asks to let go: the disk\nis full`)
}
