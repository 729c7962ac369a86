//go:build linux || darwin

package cli

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// signals is the signals that turnwise gets while it waits, and while the command runs.
type signals struct {
	pass  chan os.Signal      // for the command, once it runs
	end   chan syscall.Signal // one that ends the wait
	asked atomic.Int32        // the first of those that end the wait
	other []os.Signal         // further ones that the command gets
}

// Signals that end the wait. Those that were ignored from the start, as with nohup, stay ignored, and the command ignores
// them as well.
var ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// Other signals that a command gets.
var passed = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP}

func catch() *signals {
	s := &signals{pass: make(chan os.Signal, 64), end: make(chan syscall.Signal, 1), other: passed}
	caught := make(chan os.Signal, 64)
	if !signal.Ignored(syscall.SIGPIPE) { // what nobody reads must not end us: the line is to be given back, and the command watched
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	for _, sig := range ending {
		if !signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
	go func() {
		for sig := range caught {
			s.asked.CompareAndSwap(0, int32(sig.(syscall.Signal)))
			select {
			case s.end <- sig.(syscall.Signal):
			default:
			}
			select {
			case s.pass <- sig:
			default:
			}
		}
	}()
	return s
}

// passOn also catches the command's other signals from now on.
func (s *signals) passOn() (stop func()) {
	for len(s.pass) > 0 {
		<-s.pass
	}
	for _, sig := range s.other {
		if !signal.Ignored(sig) {
			signal.Notify(s.pass, sig)
		}
	}
	return func() { signal.Stop(s.pass) }
}

// ended returns the exit code for the first signal that has ended the wait; nil: there was none.
func (s *signals) ended() error {
	if asked := s.asked.Load(); asked != 0 {
		return fail(codeSignal+int(asked), "%w", errSilent)
	}
	return nil
}

// forgive forgets a signal that has ended the wait, if it was this one.
func (s *signals) forgive(sig syscall.Signal) {
	if s.asked.CompareAndSwap(int32(sig), 0) {
		select {
		case <-s.end:
		default:
		}
	}
}

// untilEnd returns a context that also ends when a signal ends the wait.
func (s *signals) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case sig := <-s.end:
			select {
			case s.end <- sig: // for the next one who asks
			default:
			}
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
