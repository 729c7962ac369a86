package top

import (
	"context"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
)

// Show shows a survey on the terminal until somebody types q or ctx ends. one is the only line to look at; "": all. It
// returns an error if it has no terminal to draw on.
func Show(ctx context.Context, survey *lines.Survey, one string) error {
	screen, err := tcell.NewScreen()
	if err != nil {
		return err
	}
	if err := screen.Init(); err != nil {
		return err
	}
	defer screen.Fini()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go survey.Run(ctx)
	defer survey.Look()()
	v := &view{one: one != "", open: one}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		board, changed := survey.Board()
		v.board = board
		screen.Clear()
		v.draw(paper{screen}, time.Now())
		screen.Show()
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		case event := <-screen.EventQ():
			switch e := event.(type) {
			case nil: // the terminal has gone
				return nil
			case *tcell.EventError:
				return e
			case *tcell.EventResize:
				screen.Sync()
			case *tcell.EventKey:
				if e.Key() == tcell.KeyCtrlZ {
					if err := pause(screen); err != nil {
						return err
					}
					continue
				}
				if k, text := translate(e); e.Key() == tcell.KeyCtrlC || v.typed(k, text) {
					return nil
				}
			}
		}
	}
}

func translate(e *tcell.EventKey) (key, string) {
	k, ok := map[tcell.Key]key{
		tcell.KeyUp: up, tcell.KeyDown: down, tcell.KeyPgUp: pageUp, tcell.KeyPgDn: pageDown, tcell.KeyHome: home, tcell.KeyEnd: end,
		tcell.KeyEnter: enter, tcell.KeyEscape: escape, tcell.KeyBackspace: backspace, tcell.KeyBackspace2: backspace,
	}[e.Key()]
	if !ok && e.Key() == tcell.KeyRune {
		return other, e.Str()
	}
	return k, ""
}

// paper is a terminal as a canvas.
type paper struct{ tcell.Screen }

func (p paper) size() (width, height int) { return p.Size() }

func (p paper) put(x, y, width int, text string, s style) {
	look := map[style]tcell.Style{
		strong:  tcell.StyleDefault.Bold(true),
		soft:    tcell.StyleDefault.Dim(true),
		good:    tcell.StyleDefault.Foreground(color.Green),
		warning: tcell.StyleDefault.Foreground(color.Olive).Bold(true),
		bad:     tcell.StyleDefault.Foreground(color.Maroon).Bold(true),
		chosen:  tcell.StyleDefault.Reverse(true),
	}[s]
	for end := x + width; text != "" && x < end; {
		rest, wide := p.Put(x, y, text, look)
		if x+wide > end { // half of a wide character
			p.Put(x, y, " ", look)
			return
		}
		if len(rest) == len(text) {
			return
		}
		text, x = rest, x+wide
	}
	if text != "" && width > 1 {
		p.Put(x-1, y, "…", look)
	}
}
