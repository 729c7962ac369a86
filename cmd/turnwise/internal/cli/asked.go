//go:build linux || darwin

package cli

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/asks"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

// askSignal is the signal by which a command hears that somebody asks for its line; 0: it does not listen.
type askSignal struct{ syscall.Signal }

// heedable are the signals that shells complete, and that are suggested.
var heedable = []string{"USR1", "USR2", "HUP", "INT", "TERM", "QUIT", "WINCH", "ALRM", "URG"}

func (s *askSignal) Set(text string) error {
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	sig := unix.SignalNum("SIG" + name)
	if n, err := strconv.Atoi(text); err == nil {
		sig = 0
		if n > 0 && (unix.SignalName(syscall.Signal(n)) != "" || runtime.GOOS == "linux" && n > 31 && n <= 64) { // those for real time have no names
			sig = syscall.Signal(n)
		}
	}
	switch sig {
	case 0:
		return fmt.Errorf("there is no such signal%s", likeSignal(name))
	case syscall.SIGKILL:
		return fmt.Errorf("no command can put anything in order then: write TERM")
	case syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
		return fmt.Errorf("that stops the command, and it would keep the line: write TERM to end it, or USR1 to tell it")
	}
	s.Signal = sig
	return nil
}

// likeSignal suggests signals for what is none.
func likeSignal(name string) string {
	known := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, n := range heedable {
		known.AddCommand(&cobra.Command{Use: n, Run: func(*cobra.Command, []string) {}})
	}
	all := known.SuggestionsFor(name)
	if len(name) < 3 || len(all) == 0 {
		return ": write a name such as USR1, HUP or TERM, or a number"
	}
	return ": did you mean " + strings.Join(all, " or ") + "?"
}

func (*askSignal) Type() string { return "signal" }

func (s *askSignal) String() string {
	if s.Signal == 0 {
		return ""
	}
	return s.name()
}

// name is how people write it.
func (s *askSignal) name() string {
	if name := unix.SignalName(s.Signal); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(s.Signal))
}

func completeSignals(c *cobra.Command) {
	_ = c.RegisterFlagCompletionFunc("on-ask", cobra.FixedCompletions(heedable, cobra.ShellCompDirectiveNoFileComp))
}

// passAsk has the command hear that somebody asks. What is to end, ends with all that it has started, as it does if turnwise itself gets
// that signal. Any other is for the command alone: most of what it has started would die of it.
func (s *shift) passAsk() {
	switch sig := s.onAsk.Signal; sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT:
		s.terminal.send(sig)
	default:
		s.child.Tell(sig)
	}
}

// settlesFor is how long a command has from its start, to get ready for the signal: it would die of it before that.
const settlesFor = time.Second

// betweenAsks is the least time between two asks that a command hears of: anybody who may stand in the line can stand there many times.
const betweenAsks = 100 * time.Millisecond

// hears calls tell with each one who asks for what a hold has, once, until ctx or the hold ends.
func hears(ctx context.Context, h *coord.Hold, tell func(coord.Node)) error {
	for last := h.Token(); ; {
		n, err := h.Behind(ctx, func(n coord.Node) bool { return n.Token > last && asks.Reaches(n, h.Token()) })
		if ctx.Err() != nil || h.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		last = n.Token
		tell(n)
		sleep(ctx, betweenAsks)
	}
}

// asked returns a channel on which there is something each time that somebody asks for the line, or for one of them. People and
// programs hear who it is before that: not in supervise, which must go on though nobody reads what is said.
func (s *shift) asked(ctx context.Context) <-chan struct{} {
	if s.onAsk.Signal == 0 {
		return nil
	}
	heard := make(chan struct{})
	for _, h := range s.holds(s.hold) {
		go func() {
			sleep(ctx, settlesFor)
			err := hears(ctx, h, func(n coord.Node) {
				s.tellWhoAsks(n)
				select {
				case heard <- struct{}{}:
				case <-ctx.Done():
				}
			})
			if err != nil && !s.quiet {
				fmt.Fprintln(people.Err, text(fmt.Errorf("%q: who asks for it cannot be heard: %w", h.Node().Line, err)))
			}
		}()
	}
	return heard
}

func (s *shift) tellWhoAsks(n coord.Node) {
	e := status.Event{Event: "asked", Name: s.name, Token: fmt.Sprint(s.hold.Token()), By: status.Of(n), Asks: n.Asks}
	if n.Line != s.name {
		e.Line = n.Line
	}
	s.reports.Tell(e)
	if !s.quiet {
		fmt.Fprintf(people.Err, "turnwise: %q: %s asks to let go: %s\n", n.Line, brief(status.Describe(n)), coord.Printable(n.Asks))
	}
}

// brief bounds what somebody else says of himself.
func brief(text string) string {
	if r := []rune(text); len(r) > mostOfOthers {
		return string(r[:mostOfOthers]) + "…"
	}
	return text
}

const mostOfOthers = 200

// holds returns the holds of a turn.
func (w *waiter) holds(of turn) (all []*coord.Hold) {
	switch h := of.(type) {
	case *coord.Hold:
		return []*coord.Hold{h}
	case ranked:
		return []*coord.Hold{h.Hold}
	case lent:
		return []*coord.Hold{h.Hold}
	case together:
		for _, name := range w.names() {
			all = append(all, h.Hold.Hold(name))
		}
	}
	return all
}
