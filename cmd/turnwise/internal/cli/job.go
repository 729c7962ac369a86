//go:build linux || darwin

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

const commandHelp = `
The command gets the terminal, its name, mode and fencing token in TURNWISE_NAME, TURNWISE_MODE and TURNWISE_TOKEN, and all
signals. The line is given back when the command and all that it has started is gone. If the hold is in danger they are ended
before it is lost. Exit codes: the command's own; 128+n for signal n; 64 usage, 69 out of reach, 70 lost and stopped in time,
71 lost, 73 unusable, 75 somebody has it, 76 taken away by an operator, 77 denied, 78 configuration, 126 and 127 not runnable.`

// job is a command to run under a hold: what lock, sem and elect have in common.
type job struct {
	service *service

	name, mode string
	argv       []string
	path       string // of the program
	restart    string // when to stand again: "" is never
	several    bool   // whoever holds may hold once more
	acquire    func(ctx context.Context, c *coord.Client, try bool) (*coord.Hold, error)

	shell    string
	try      bool
	wait     seconds
	busyCode int
	ttl      seconds
	grace    seconds
	maxHold  seconds
	alone    bool
	quiet    bool
	statusFD int
	label    string
	trace    string
	flock    bool

	url     string // of the service
	to      *backend.Service
	client  *coord.Client
	reports *status.Reporter
	signals *signals
}

func newJob(s *service) *job { return &job{service: s} }

// commands makes c run a job. prepare checks and applies the flags that only c has.
func (j *job) commands(c *cobra.Command, prepare func() error) {
	f := c.Flags()
	f.SetInterspersed(false)
	f.StringVarP(&j.shell, "command", "c", "", "run this `line` with the shell, $SHELL or /bin/sh, instead of COMMAND")
	f.BoolVarP(&j.try, "nonblock", "n", false, "do not wait at all")
	f.VarP(&j.wait, "wait", "w", "wait no longer than this")
	f.IntVarP(&j.busyCode, "conflict-exit-code", "E", codeBusy, "the exit `code` if somebody has it, or -w is over")
	f.Var(&j.ttl, "ttl", "how long the service keeps the place if nothing is heard (default: as the URL or the service has it)")
	j.grace.Duration = 5 * time.Second
	f.Var(&j.grace, "grace", "how long the command has from SIGTERM to SIGKILL; less if the ttl is short")
	f.Var(&j.maxHold, "max-hold", "end the command after this time")
	f.BoolVarP(&j.alone, "close", "o", false, "the command alone counts, not what it has started and left behind")
	f.BoolVarP(&j.quiet, "quiet", "q", false, "say nothing of the wait")
	f.IntVar(&j.statusFD, "status-fd", -1, "write events as lines of JSON to this file `descriptor`")
	f.StringVar(&j.label, "label", "", "what others see of this one beside host and process (default: the command's name)")
	j.traceFlag(f)
	f.BoolVar(&j.flock, "flock", false, "the exit codes of flock(1): 1 if somebody has it, 69 if the command cannot be run")
	for _, alias := range []string{"nb", "nonblocking"} {
		f.BoolVar(&j.try, alias, false, "")
		_ = f.MarkHidden(alias)
	}
	f.Var(&j.wait, "timeout", "")
	_ = f.MarkHidden("timeout")
	c.RunE = func(c *cobra.Command, args []string) error {
		err := j.arguments(f, args)
		if err == nil {
			err = prepare()
		}
		if err == nil {
			err = j.check()
		}
		if err == nil {
			err = j.run()
		}
		return j.asFlock(err)
	}
}

func (j *job) traceFlag(f *pflag.FlagSet) {
	f.StringVar(&j.trace, "trace", "", "append to this `file` who had the line, and when: for turnwise audit")
}

// arguments takes NAME [--] COMMAND [ARGUMENT...], or NAME -c LINE as flock(1) does.
func (j *job) arguments(f *pflag.FlagSet, args []string) error {
	if len(args) == 0 {
		return usage("there is no name: write NAME -- COMMAND")
	}
	j.name, args = args[0], args[1:]
	if err := coord.CheckName(j.name); err != nil {
		return &failure{codeUsage, err}
	}
	if len(args) == 2 && args[0] == "-c" && j.shell == "" {
		j.shell, args = args[1], nil
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	} else if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		return usage("%s stands behind the name: flags come before it, and -- before a command that begins with -", coord.Printable(args[0]))
	}
	switch {
	case f.Changed("command") && j.shell == "":
		return usage("-c needs a line for the shell")
	case j.shell != "" && len(args) > 0:
		return usage("-c and COMMAND exclude each other")
	case j.shell != "":
		args = []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh"), "-c", j.shell}
	case len(args) == 0 || args[0] == "":
		return usage("there is no command: write %s -- COMMAND", coord.Printable(j.name))
	}
	j.argv = args
	if f.Changed("wait") || f.Changed("timeout") {
		j.try = j.try || j.wait.Duration == 0
	} else {
		j.wait.Duration = -1
	}
	if j.flock && !f.Changed("conflict-exit-code") {
		j.busyCode = flockBusy
	}
	switch {
	case j.try && (f.Changed("wait") || f.Changed("timeout")) && j.wait.Duration != 0:
		return usage("-n and -w exclude each other")
	case j.busyCode < 0 || j.busyCode > 255:
		return usage("-E %d: an exit code is from 0 to 255", j.busyCode)
	case f.Changed("max-hold") && j.maxHold.Duration == 0:
		return usage("--max-hold 0: it must be positive")
	case f.Changed("ttl") && j.ttl.Duration == 0:
		return usage("--ttl 0: it must be positive")
	case f.Changed("status-fd") && !isOpen(j.statusFD):
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

// check finds errors that can be found before any service is asked.
func (j *job) check() (err error) {
	if _, ok := os.LookupEnv("PATH"); !ok { // as it is for shells
		os.Setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
		defer os.Unsetenv("PATH")
	}
	if j.path, err = exec.LookPath(j.argv[0]); err != nil {
		return unstarted(j.argv[0], err)
	}
	j.to, j.url, err = j.service.find()
	return err
}

func (j *job) asFlock(err error) error {
	if code := codeOf(err); j.flock && (code == codeNotRunnable || code == codeNotFound) {
		return &failure{flockNotRunnable, err}
	}
	return err
}

// run does the job. Its error, if any, has the exit code.
func (j *job) run() error {
	var programs *os.File
	if j.statusFD >= 0 {
		unix.CloseOnExec(j.statusFD)
		programs = os.NewFile(uintptr(j.statusFD), "status")
	}
	people := os.Stderr
	if j.quiet {
		people = nil
	}
	if programs == nil { // an interface must not hold a nil file
		j.reports = status.New(j.name, j.mode, people, term.IsTerminal(int(os.Stderr.Fd())), nil)
	} else {
		j.reports = status.New(j.name, j.mode, people, term.IsTerminal(int(os.Stderr.Fd())), programs)
	}
	defer j.reports.Close()
	j.signals = catch()
	if err := j.open(); err != nil {
		return err
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := j.once()
		if !j.again(err) {
			j.close(err)
			return err
		}
		if text := text(err); err != nil && !silent(err) {
			fmt.Fprintln(os.Stderr, text+"; standing again")
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case s := <-j.signals.end:
			err := fail(codeSignal+int(s), "%w", errSilent)
			j.close(err)
			return err
		}
	}
}

// The pause between two terms grows as long as terms do not last.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// again reports whether to stand again after a term that has ended with err.
func (j *job) again(err error) bool {
	if j.restart == "" || j.restart == "never" || j.signals.asked.Load() != 0 {
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

// close ends the session. If the command may still run, it must expire instead, so that nobody enters beside the command.
func (j *job) close(err error) {
	if codeOf(err) == codeLost {
		return
	}
	closed := make(chan struct{})
	go func() {
		j.client.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeFor):
	}
}

// closeFor is how long to wait for the end of a session. If the service does not hear of it, the session ends by itself.
const closeFor = time.Second

func (j *job) open() error {
	traced, err := j.traced()
	if err != nil {
		return err
	}
	opts := []backend.Option{backend.WithClient(
		coord.WithObserver(traced),
		coord.WithOwnerLabel(cmp.Or(j.label, j.commandName())),
		coord.WithObserver(&coord.Observer{Waiting: func(_ time.Time, me coord.Node, _ int) { j.signals.waiting(me) }}),
	)}
	if j.ttl.Duration > 0 {
		opts = append(opts, backend.WithTTL(j.ttl.Duration))
	}
	ctx, cancel := j.signals.untilEnd(context.Background())
	defer cancel()
	if j.try || j.wait.Duration > 0 { // this is not yet the wait in line
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, max(j.wait.Duration, connectFor))
		defer stop()
	}
	late := time.AfterFunc(2*time.Second, func() {
		if !j.quiet {
			fmt.Fprintf(os.Stderr, "turnwise: no answer from %s yet\n", j.to)
		}
	})
	defer late.Stop()
	if j.client, err = j.service.open(ctx, j.to, opts...); err != nil {
		if s := j.signals.asked.Load(); s != 0 {
			return fail(codeSignal+int(s), "%w", errSilent)
		}
		if code := codeOf(err); code == codeConfig && j.ttl.Duration > 0 {
			return &failure{codeUsage, err}
		}
		return err
	}
	return nil
}

// connectFor is the least time to try to reach the service when the wait is limited. Otherwise the driver decides.
const connectFor = 5 * time.Second

func (j *job) commandName() string {
	if j.shell != "" {
		return "sh"
	}
	return filepath.Base(j.argv[0])
}

// once waits for a turn, runs the command, and gives the line back.
func (j *job) once() error {
	if err := j.heldAround(); err != nil {
		return err
	}
	hold, err := j.take()
	if err != nil {
		if codeOf(err) != codeBusy {
			return err
		}
		if j.quiet {
			return fail(j.busyCode, "%w", errSilent)
		}
		return taken(j.busyCode, err)
	}
	return j.work(hold)
}

// take waits for the turn.
func (j *job) take() (*coord.Hold, error) {
	ctx, cancel := j.signals.untilEnd(context.Background())
	defer cancel()
	if j.wait.Duration > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, j.wait.Duration)
		defer stop()
	}
	shown := make(chan struct{})
	if !j.reports.Quiet() && !j.try {
		watching, stop := context.WithCancel(ctx)
		go func() {
			defer close(shown)
			j.showWait(watching)
		}()
		defer func() {
			stop()
			<-shown
			j.reports.Over()
		}()
	}
	hold, err := j.acquire(ctx, j.client, j.try)
	if s := j.signals.asked.Load(); s != 0 {
		if hold != nil {
			hold.Release()
		}
		return nil, fail(codeSignal+int(s), "%w", errSilent)
	}
	if err != nil {
		return nil, refused(err)
	}
	return hold, nil
}

// The wait is shown when it has lasted for a moment, and again from time to time. Looking may take no more than a twentieth
// of the time, because a long line takes long to read and many may wait in it.
const (
	showAfter = 200 * time.Millisecond
	showEvery = time.Second
)

func (j *job) showWait(ctx context.Context) {
	var me coord.Node
	late := time.After(5 * time.Second)
	for pause := showAfter; ; {
		select {
		case <-ctx.Done():
			return
		case me = <-j.signals.me:
			late = nil
			continue
		case <-late:
			late = nil
			if !j.quiet {
				fmt.Fprintf(os.Stderr, "turnwise: not in line yet: 'turnwise doctor' says what is wrong with %s\n", j.to)
			}
			continue
		case <-time.After(pause):
		}
		pause = showEvery
		if me.Token == 0 {
			continue
		}
		began := time.Now()
		line, err := j.client.Line(ctx, j.name)
		if err == nil {
			j.reports.Waiting(line, me)
		}
		pause = max(pause, 20*time.Since(began))
	}
}

// heldAround refuses to wait for a line that is already held for the command in which this turnwise runs: it would wait
// forever.
func (j *job) heldAround() error {
	token := os.Getenv(tokenVariable(j.name))
	if token == "" || j.several {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachFor)
	defer cancel()
	line, err := j.client.Line(ctx, j.name)
	if err != nil {
		return refused(err)
	}
	for _, n := range line {
		if n.Holds && fmt.Sprint(n.Token) == token {
			return fail(j.busyCode, "%q is held already by what this one runs in (%s): it would wait for itself",
				j.name, tokenVariable(j.name))
		}
	}
	return nil
}

// variables returns what is added to the command's environment.
func (j *job) variables(token coord.Token) []string {
	return []string{
		"TURNWISE_NAME=" + j.name,
		"TURNWISE_MODE=" + j.mode,
		fmt.Sprintf("TURNWISE_TOKEN=%d", token),
		fmt.Sprintf("%s=%d", tokenVariable(j.name), token),
		"TURNWISE_BACKEND=" + j.url,
	}
}

// environment returns the command's environment. It has no variable twice, as could happen within another turnwise: most
// programs find the first one, and shells the last.
func (j *job) environment(token coord.Token) []string {
	ours := j.variables(token)
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(ours, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(inherited, ours...)
}

// tokenVariable returns the name of the variable that has a line's token, even within another turnwise.
func tokenVariable(name string) string {
	return "TURNWISE_TOKEN_" + strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, name)
}
