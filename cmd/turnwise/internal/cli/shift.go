//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/guard"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
)

// shift is the time for which a program runs under a hold.
type shift struct {
	*waiter
	*program
	hold     turn
	lease    lease
	child    run.Child
	terminal *terminal
	cgroup   string

	exited     run.Event
	typed      syscall.Signal // see terminal.typed
	tell       bool
	gone       run.Moment
	endangered bool
	heard      bool // that somebody asks for the line
	overstayed bool // --max-hold is over
	outranked  bool // a better candidate stands, or the shard is another member's
	gaveWay    bool // and the command ran until then
	stuck      bool // the command was ended for one of these, and so long ago that something cannot be killed
	sudden     bool // the hold ended before its deadline
}

// work runs a program under a hold, and gives the line back when all processes have gone. ended is called before that, if the
// command has ended well; nil: there is nothing to do.
func work(w *waiter, p *program, hold turn, ended func() error) error {
	s := &shift{waiter: w, program: p, hold: hold, lease: lease{hold: hold, grace: p.grace.Duration}}
	s.reports.Tell(s.event("granted"))
	defer s.signals.passOn()()
	if signalled := s.signals.ended(); signalled != nil { // just now
		hold.Release()
		return signalled
	}
	if err := s.start(); err != nil {
		run.RemoveCgroup(s.cgroup)
		hold.Release()
		return err
	}
	err := s.supervise()
	if s.gone == 0 {
		return err // the line stays taken until the session ends by itself
	}
	run.RemoveCgroup(s.cgroup)
	s.terminal.takeBack()
	if err == nil && ended != nil {
		err = ended()
	}
	hold.Release()
	if code := codeOf(err); errors.Is(err, errOutranked) || code != codeStopped && code != codeLost && code != codeBroken {
		s.reports.Tell(status.Event{Event: "released", Name: s.name, Token: fmt.Sprint(hold.Token())})
	}
	return err
}

func (s *shift) event(what string) status.Event {
	e := status.Event{Event: what, Name: s.name, Token: fmt.Sprint(s.hold.Token())}
	if left := time.Until(s.hold.Deadline()); left > 0 && left < endless {
		at := time.Now().Add(left)
		e.Deadline = &at
	}
	return e
}

// start starts the command in the guardian's care: the hold could end while this process is stopped, and after this process was
// killed another could have the line while the command still runs. On a directory the command inherits the files that keep the
// line, but what it starts may have closed them, as Python, sudo and ssh do: so there the guardian keeps them as well.
func (s *shift) start() (err error) {
	s.terminal = openTerminal()
	s.terminal.among = s.among()
	c := run.Command{
		Path: s.path, Args: s.argv, Alone: s.alone, Foreground: s.terminal.first,
		Env: environment(s.variables(s.hold)),
	}
	if s.to.Scheme() == "file" {
		if c.Files, err = file.Descriptors(s.client); err != nil {
			return &failure{codeUnusable, err}
		}
		c.Outlives = !s.alone && !s.terminal.among // what runs as long as this one is a member ends with it
	} else if !s.alone { // without a deadline it is not worth the milliseconds
		c.Cgroup, _ = run.NewCgroup() // without one, other means have to do
		s.cgroup = c.Cgroup
	}
	s.child, err = guard.Start(c, s.name, s.lease.until)
	if err != nil {
		s.terminal.takeBack()
		return unstarted(s.argv[0], err)
	}
	s.terminal.child = s.child
	return nil
}

// among reports whether the command is one of several that run side by side.
func (s *shift) among() bool {
	h, ok := s.hold.(lent)
	return ok && h.over != nil
}

// supervise looks after the command until all processes have gone.
func (s *shift) supervise() error {
	lost := s.hold.Context().Done()
	var gaveUp, overstayed, stuck <-chan time.Time
	if s.maxHold.Duration > 0 {
		overstayed = time.After(s.maxHold.Duration)
	}
	listening, stop := context.WithCancel(s.hold.Context())
	defer stop()
	asked, better := s.asked(listening), s.better(listening)
	for {
		if limit, changed := s.lease.until(); changed {
			s.child.Limit(limit)
		}
		renewed := time.NewTimer(s.lease.lookAgain())
		select {
		case e := <-s.child.Events():
			s.happened(e)
		case sig := <-s.signals.pass:
			s.terminal.pass(sig)
		case <-asked:
			s.heard = true
			s.passAsk()
		case <-overstayed:
			s.overstayed = true
			stuck = s.end()
		case <-better:
			better = nil
			s.outranked, s.gaveWay = true, s.exited.What == 0 && !s.overstayed
			stuck = s.end()
		case <-stuck:
			s.stuck = true
			fmt.Fprintf(people.Err, "turnwise: %q: %s, and some of what the command has started cannot be killed: the line stays taken until it ends\n", s.name, s.reason())
		case <-lost:
			lost = nil
			s.sudden = s.lease.deadline == 0 || run.Now() < s.lease.deadline
			why := context.Cause(s.hold.Context())
			grace := s.graceAfter(why)
			s.child.End(grace)
			gaveUp = time.After(grace + giveUpAfter)
			s.reports.Tell(status.Event{Event: "lost", Name: s.name, Token: fmt.Sprint(s.hold.Token()), Reason: why.Error()})
		case <-gaveUp:
			return fail(codeLost, "%q: %w, and some of what the command has started cannot be killed", s.name, context.Cause(s.hold.Context()))
		case <-renewed.C:
		}
		renewed.Stop()
		if s.gone != 0 {
			return s.verdict()
		}
	}
}

// end has the command end, and returns a channel that tells when it is too late for that.
func (s *shift) end() <-chan time.Time {
	s.child.End(s.grace.Duration)
	return time.After(s.grace.Duration + giveUpAfter)
}

// ending reports whether the command is to end though nothing is wrong with the hold.
func (s *shift) ending() bool { return s.overstayed || s.outranked }

func (s *shift) reason() string {
	switch {
	case s.overstayed:
		return "--max-hold was over"
	case s.among():
		return "the shard was another member's"
	}
	return "a better candidate came"
}

// graceAfter returns for how long the command may go on after a loss. If that is because the service has forgotten who holds, and
// says so, nobody is let in before the last deadline that was heard of; what the child was told last keeps it from going beyond.
func (s *shift) graceAfter(loss error) time.Duration {
	grace := min(s.grace.Duration, s.lease.deadline.Until())
	if !errors.Is(loss, coord.ErrForgot) || s.client.Driver().Strength().Restart < coord.ForgetsOpenly || grace <= 0 {
		return 0
	}
	if !s.quiet {
		fmt.Fprintf(people.Err, "turnwise: %q: %v: ending the command before anybody else is let in\n", s.name, loss)
	}
	return grace
}

// giveUpAfter is how long to try to kill processes that do not die after the hold has been lost.
const giveUpAfter = 5 * time.Second

func (s *shift) happened(e run.Event) {
	switch e.What {
	case run.Started:
		s.terminal.group = e.Pid
	case run.Stopped:
		s.terminal.stopped(syscall.Signal(e.Signal))
	case run.Exited:
		s.exited = e
		if !s.heard || e.Status != int(s.onAsk.Signal) { // nobody has typed that
			s.typed, s.tell = s.terminal.typed(e.Status)
		}
	case run.Endangered:
		s.endangered = !s.ending()
		if s.ending() || s.hold.Err() != nil {
			return
		}
		s.reports.Tell(s.event("endangered"))
		if !s.quiet {
			fmt.Fprintf(people.Err, "turnwise: %q: nothing is heard of the service: ending the command while it is still held\n", s.name)
		}
	case run.Gone:
		s.gone = e.At
	}
}

// verdict returns the outcome, once all processes have gone.
func (s *shift) verdict() error {
	why := s.hold.Err()
	switch {
	case errors.Is(why, coord.ErrRemoved):
		return fail(codeBroken, "%q: an operator has taken the place away, and the command was killed", s.name)
	case why != nil && (s.sudden || !s.lease.covers(s.gone)):
		return fail(codeLost, "%q: %w, before the command had ended", s.name, why)
	case s.endangered:
		return fail(codeStopped, "%q: the command was ended, since the hold was about to be lost", s.name)
	case s.gaveWay:
		return fail(codeStopped, "%q: %w", s.name, errOutranked)
	case s.stuck:
		err := fmt.Errorf("%q: what could not be killed when %s has ended by itself", s.name, s.reason())
		if s.exited.Code == 0 {
			return &failure{codeStopped, err}
		}
		fmt.Fprintln(people.Err, text(err))
	case s.overstayed:
		fmt.Fprintf(people.Err, "turnwise: %q: the command was ended after %v (--max-hold)\n", s.name, s.maxHold.Duration)
	}
	if s.exited.Code == 0 {
		return nil
	}
	return &failure{s.exited.Code, &ended{s.exited.Code, s.typed, s.tell}}
}
