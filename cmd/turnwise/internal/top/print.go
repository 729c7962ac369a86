package top

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

// Print writes changes until ctx ends or nothing more can be written. For each change of a line, it writes to out who holds
// and how many wait; to errs it writes what could not be read.
func Print(ctx context.Context, survey *lines.Survey, out, errs io.Writer, asJSON bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go survey.Run(ctx)
	defer survey.Look()()
	before, trouble := &lines.Board{}, ""
	for {
		board, changed := survey.Board()
		if board.Error != trouble {
			if trouble = board.Error; trouble != "" {
				fmt.Fprintln(errs, "turnwise: "+trouble)
			}
		}
		if err := printChanges(out, board, before, asJSON); err != nil {
			return nil // nobody reads any more
		}
		before = board
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func printChanges(out io.Writer, board, before *lines.Board, asJSON bool) error {
	old := make(map[string]string)
	for _, l := range before.Lines {
		old[l.Name] = essence(l)
	}
	different, gone := board.Changes(before)
	var b strings.Builder
	at := board.Time.Local().Format(time.TimeOnly)
	for _, l := range different {
		text := essence(l)
		if text == old[l.Name] || l.State == lines.Unread && l.Error == "" {
			continue
		}
		if asJSON {
			b.Write(status.JSON(map[string]any{"time": board.Time, "line": l}))
		} else {
			fmt.Fprintln(&b, at, text)
		}
	}
	for _, name := range gone {
		if asJSON {
			b.Write(status.JSON(map[string]any{"time": board.Time, "gone": name}))
		} else {
			fmt.Fprintln(&b, at, coord.Printable(name), "nobody")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// essence is what is said about a line. A change is whatever changes that.
func essence(l lines.Line) string {
	text := coord.Printable(l.Name)
	if l.State == lines.Unread {
		return text + " cannot be read: " + coord.Printable(l.Error)
	}
	var holders []string
	for _, c := range l.Contenders {
		if c.Holds && len(holders) < 3 {
			holders = append(holders, who(c)+" as "+c.Mode+" with token "+c.Token)
		}
	}
	text += " held by " + strings.Join(holders, ", ")
	if more := l.Holding - len(holders); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if l.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", l.Waiting)
	}
	return text
}
