//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/guard"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
)

// shift is the time for which a command runs under a hold.
type shift struct {
	*job
	hold     *coord.Hold
	child    run.Child
	terminal *terminal
	cgroup   string

	lease    time.Duration // the longest time so far that the hold was sure to last
	deadline run.Moment    // until when the hold is sure, as last told to the child's keeper
	grace    time.Duration

	exited     run.Event
	endangered bool
	overstayed bool // --max-hold is over
	sudden     bool // the hold ended before its deadline
	paused     int  // how many SIGTSTP of our own are on their way
	gone       run.Moment
}

// endless is longer than any hold on a service with a TTL is sure to last.
const endless = 30 * 24 * time.Hour

// work runs the command under a hold, and gives the line back when all processes have gone.
func (j *job) work(hold *coord.Hold) error {
	w := &shift{job: j, hold: hold, grace: j.grace.Duration}
	j.reports.Tell(w.event("granted"))
	defer j.signals.passOn()()
	if s := j.signals.asked.Load(); s != 0 { // the signal came just now
		hold.Release()
		return fail(codeSignal+int(s), "%w", errSilent)
	}
	if err := w.start(); err != nil {
		run.RemoveCgroup(w.cgroup)
		hold.Release()
		return err
	}
	err := w.supervise()
	if w.gone == 0 {
		return err // the line stays taken until the session ends by itself
	}
	run.RemoveCgroup(w.cgroup)
	w.terminal.takeBack()
	hold.Release()
	switch codeOf(err) {
	case codeStopped, codeLost, codeBroken:
	default:
		j.reports.Tell(status.Event{Event: "released", Token: fmt.Sprint(hold.Token())})
	}
	return err
}

func (w *shift) event(what string) status.Event {
	e := status.Event{Event: what, Token: fmt.Sprint(w.hold.Token())}
	if left := time.Until(w.hold.Deadline()); left > 0 && left < endless {
		at := time.Now().Add(left)
		e.Deadline = &at
	}
	return e
}

// start starts the command. It does so in the guardian's care if the hold could end while this process is stopped, or if,
// after this process was killed, another could have the line while the command still runs.
func (w *shift) start() (err error) {
	w.terminal = openTerminal()
	c := run.Command{
		Path: w.path, Args: w.argv, Env: w.environment(w.hold.Token()), Alone: w.alone, Foreground: w.terminal.isOurs(),
	}
	guarded := true
	if w.to.Scheme() == "file" {
		if c.Files, err = file.Descriptors(w.client); err != nil {
			return &failure{codeUnusable, err}
		}
		guarded = w.alone // otherwise the command itself keeps the line
	}
	if guarded && !w.alone { // without a deadline it is not worth the milliseconds
		c.Cgroup, _ = run.NewCgroup() // without one, other means have to do
		w.cgroup = c.Cgroup
	}
	if guarded {
		w.child, err = guard.Start(c, w.name, w.until)
	} else {
		w.child, err = run.Start(c)
	}
	if err != nil {
		w.terminal.takeBack()
		return unstarted(w.argv[0], err)
	}
	w.terminal.given = c.Foreground
	return nil
}

// supervise looks after the command until all processes have gone.
func (w *shift) supervise() error {
	lost := w.hold.Context().Done()
	var gaveUp, overstayed <-chan time.Time
	if w.maxHold.Duration > 0 {
		overstayed = time.After(w.maxHold.Duration)
	}
	for {
		renewed := time.NewTimer(w.limit())
		select {
		case e := <-w.child.Events():
			w.happened(e)
		case s := <-w.signals.pass:
			w.signal(s)
		case <-overstayed:
			w.overstayed = true
			w.child.End(w.grace)
		case <-lost:
			lost, gaveUp = nil, time.After(giveUpAfter)
			w.sudden = w.deadline == 0 || run.Now() < w.deadline
			w.child.End(0)
			why := context.Cause(w.hold.Context())
			w.reports.Tell(status.Event{Event: "lost", Token: fmt.Sprint(w.hold.Token()), Reason: why.Error()})
		case <-gaveUp:
			return fail(codeLost, "%q: %w, and some of what the command has started cannot be killed", w.name, context.Cause(w.hold.Context()))
		case <-renewed.C:
		}
		renewed.Stop()
		if w.gone != 0 {
			return w.verdict()
		}
	}
}

// giveUpAfter is how long to try to kill processes that do not die after the hold has been lost.
const giveUpAfter = 5 * time.Second

func (w *shift) happened(e run.Event) {
	switch e.What {
	case run.Started:
		w.terminal.child = e.Pid
	case run.Stopped:
		w.stopped(syscall.Signal(e.Signal))
	case run.Exited:
		w.exited = e
	case run.Endangered:
		w.endangered = !w.overstayed
		if w.overstayed || w.hold.Err() != nil {
			return
		}
		w.reports.Tell(w.event("endangered"))
		if !w.quiet {
			fmt.Fprintf(os.Stderr, "turnwise: %q: nothing is heard of the service: ending the command while it is still held\n", w.name)
		}
	case run.Gone:
		w.gone = e.At
	}
}

// verdict returns the outcome, once all processes have gone.
func (w *shift) verdict() error {
	why := w.hold.Err()
	switch {
	case errors.Is(why, coord.ErrRemoved):
		return fail(codeBroken, "%q: an operator has taken the place away, and the command was killed", w.name)
	case why != nil && (w.sudden || w.deadline == 0 || w.gone > w.deadline):
		return fail(codeLost, "%q: %w, before the command had ended", w.name, why)
	case w.endangered:
		return fail(codeStopped, "%q: the command was ended, since the hold was about to be lost", w.name)
	case w.overstayed:
		fmt.Fprintf(os.Stderr, "turnwise: %q: the command was ended after %v (--max-hold)\n", w.name, w.maxHold.Duration)
	}
	if w.exited.Code == 0 {
		return nil
	}
	return &failure{w.exited.Code, &ended{w.exited.Code, w.terminal.typed(w.exited.Status)}}
}

// limit tells the child's keeper until when the command may go on, if that has changed, and returns how soon to look again.
func (w *shift) limit() time.Duration {
	if l, changed := w.until(); changed {
		w.child.Limit(l)
	}
	if w.lease == 0 {
		return time.Second
	}
	return min(max(w.lease/40, 10*time.Millisecond), 500*time.Millisecond)
}

// until returns until when the command may go on, and whether that has changed. A hold without a deadline has no limit.
//
// It never returns a time later than the true one, because it reads the clock before the deadline.
func (w *shift) until() (l run.Limit, changed bool) {
	now := run.Now()
	left := time.Until(w.hold.Deadline())
	switch {
	case left <= 0 && w.deadline == 0: // it was lost before the command could be started
		return run.Limit{Term: now, Kill: now, Last: now}, true
	case left <= 0, left > endless:
		return run.Limit{}, false
	}
	w.lease = max(w.lease, left)
	deadline := now + run.Moment(left)
	if deadline-w.deadline <= run.Moment(time.Millisecond) {
		return run.Limit{}, false
	}
	w.deadline = deadline
	// The command must be dead a little before the deadline. But it is not asked to end before half of the time has passed
	// for which a hold is sure without news: otherwise a service that pauses for a moment would end it. A guardian that has
	// not killed it soon is stopped, perhaps, and the rest of the margin is for this process to do so.
	margin := min(w.lease/5, time.Second)
	grace := min(w.grace, max(w.lease/2-margin, 0))
	kill := deadline - run.Moment(margin)
	return run.Limit{Term: kill - run.Moment(grace), Kill: kill, Last: kill + run.Moment(margin/4)}, true
}
