//go:build linux || darwin

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

const commandHelp = `
The command gets the terminal, its name, mode and fencing token in TURNWISE_NAME, TURNWISE_MODE and TURNWISE_TOKEN, and all
signals. The line is given back when the command and all that it has started is gone. If the hold is in danger they are ended
before it is lost. Exit codes: the command's own; 128+n for signal n; 64 usage, 69 out of reach, 70 lost and stopped in time,
71 lost, 73 unusable, 75 somebody has it, 76 taken away by an operator, 77 denied, 78 configuration, 126 and 127 not runnable.`

// job is a command to run under a hold: what lock, sem and elect have in common.
type job struct {
	request
	program

	service  *service
	once     *slotted // nil: it may be run any number of times
	restart  string   // when to stand again: "" is never
	flock    bool
	statusFD int
}

func newJob(s *service) *job { return &job{service: s} }

// commands makes c run a job that waits for one turn. prepare checks and applies the flags that only c has.
func (j *job) commands(c *cobra.Command, prepare func() error) {
	f := c.Flags()
	j.request.waitFlags(f)
	f.BoolVar(&j.flock, "flock", false, "the exit codes of flock(1): 1 if somebody has it, 69 if the command cannot be run")
	for _, alias := range []string{"nb", "nonblocking"} {
		f.BoolVar(&j.try, alias, false, "")
		_ = f.MarkHidden(alias)
	}
	f.Var(&j.wait, "timeout", "")
	_ = f.MarkHidden("timeout")
	own := func(args []string) ([]string, error) { return args, nil }
	j.runs(c, own, func() error {
		if err := prepare(); err != nil {
			return err
		}
		return j.run()
	})
}

// runs makes c run a program under holds. own takes the arguments that only c has, from the front.
func (j *job) runs(c *cobra.Command, own func(args []string) ([]string, error), run func() error) {
	f := c.Flags()
	f.SetInterspersed(false)
	j.request.flags(f)
	f.StringVar(&j.label, "label", "", "what others see of this one beside host and process (default: the command's name)")
	j.program.flags(f)
	completeSignals(c)
	f.IntVar(&j.statusFD, "status-fd", -1, "write events as lines of JSON to this file `descriptor`")
	c.RunE = func(c *cobra.Command, args []string) error {
		args, err := own(args)
		if err == nil {
			err = j.arguments(f, args)
		}
		if err == nil {
			err = run()
		}
		return j.asFlock(err)
	}
}

// arguments takes NAME [--] COMMAND [ARGUMENT...], and finds what is wrong with them and the flags.
func (j *job) arguments(f *pflag.FlagSet, args []string) error {
	if len(args) == 0 {
		return usage("there is no name: write NAME -- COMMAND")
	}
	j.name = args[0]
	if j.flock && !f.Changed("conflict-exit-code") {
		j.busyCode = flockBusy
	}
	if err := j.request.check(); err != nil {
		return err
	}
	if err := j.program.arguments(f, j.name, args[1:]); err != nil {
		return err
	}
	j.label = cmp.Or(j.label, j.shortName())
	if f.Changed("status-fd") && !isOpen(j.statusFD) {
		return usage("--status-fd %d: there is no such file descriptor", j.statusFD)
	}
	return nil
}

// isOpen reports whether a file was handed to this program: files that its own runtime has opened are closed by exec.
func isOpen(fd int) bool {
	if fd < 0 {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

func (j *job) asFlock(err error) error {
	if code := codeOf(err); j.flock && (code == codeNotRunnable || code == codeNotFound) {
		return &failure{flockNotRunnable, err}
	}
	return err
}

// run does the job. Its error, if any, has the exit code.
func (j *job) run() error { return j.atService(j.terms) }

// atService does something in a session of the service, and ends that.
func (j *job) atService(do func(w *waiter) error) error {
	if err := j.find(); err != nil {
		return err
	}
	w, err := newWaiter(j.service, &j.request)
	if err != nil {
		return err
	}
	reports := j.reporter()
	defer reports.Close()
	if err := w.connect(reports); err != nil {
		return err
	}
	err = do(w)
	w.close(err)
	return err
}

func (j *job) reporter() *status.Reporter {
	var programs io.WriteCloser
	if j.statusFD >= 0 {
		unix.CloseOnExec(j.statusFD)
		programs = os.NewFile(uintptr(j.statusFD), "status")
	}
	return status.New(j.name, j.mode, listeners(j.quiet), term.IsTerminal(int(os.Stderr.Fd())), programs)
}

// listeners are the people to whom a wait is shown; nil: nobody.
func listeners(quiet bool) io.Writer {
	if quiet {
		return nil
	}
	return people.Err
}

// terms runs the command in one turn after the other, as long as it is to be started again.
func (j *job) terms(w *waiter) error {
	var retries driverkit.Retries
	for {
		began := time.Now()
		err := j.term(w)
		// To many commands HUP says something else than to end; to one on a terminal that it has not survived, it says that.
		if controlling() < 0 || codeOf(err) != codeSignal+int(syscall.SIGHUP) {
			w.signals.forgive(syscall.SIGHUP)
		}
		if w.signals.ended() != nil || !j.again(err) {
			return err
		}
		if text := text(err); err != nil && !silent(err) {
			fmt.Fprintln(people.Err, text+"; standing again")
		}
		select {
		case <-time.After(retries.Next(time.Since(began))):
		case <-w.signals.end:
			return w.signals.ended()
		}
	}
}

// term waits for a turn, runs the command, and gives the line back.
func (j *job) term(w *waiter) error {
	if err := w.heldAround(); err != nil {
		return err
	}
	if j.once != nil {
		if settled, err := j.once.settled(w, nil); settled || err != nil {
			return err
		}
	}
	hold, err := w.take()
	if err != nil {
		return err
	}
	if j.once == nil {
		return work(w, &j.program, hold, nil)
	}
	if settled, err := j.once.settled(w, hold); settled || err != nil {
		hold.Release()
		return err
	}
	return work(w, &j.program, hold, func() error { return j.once.ended(w, hold) })
}

// workLent runs the command under a hold that somebody else releases as soon as it returns. It does not return if somebody may enter beside
// the command then: fatal is told, and the line stays taken until the session ends by itself.
func (j *job) workLent(w *waiter, hold lent, fatal chan<- error) error {
	err := work(w, &j.program, hold, nil)
	if overlaps(err) {
		fatal <- err
		select {}
	}
	return err
}

func checkRestart(restart string) error {
	switch restart {
	case "never", "on-failure", "always":
		return nil
	}
	return usage("--restart %s: write always, on-failure or never", coord.Printable(restart))
}

// again reports whether to stand again after a term that has ended with err.
func (j *job) again(err error) bool {
	if errors.Is(err, errOutranked) { // it stands behind the better one: that is what a rank is for
		return true
	}
	if j.restart == "" || j.restart == "never" {
		return false
	}
	var own *ended
	if err == nil || errors.As(err, &own) {
		return j.restart == "always" || err != nil
	}
	switch codeOf(err) {
	case codeUnreachable, codeStopped, codeBroken:
		return true
	}
	return false
}
