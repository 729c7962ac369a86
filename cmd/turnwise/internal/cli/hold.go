//go:build linux || darwin

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

// holderVariable tells the program that it is the one in the background, and which process it holds for.
const holderVariable = "TURNWISE_HOLDER_FOR"

func holdCommand(s *service) *cobra.Command {
	j := newJob(s)
	var shared bool
	var pid int
	var duration seconds
	c := &cobra.Command{
		Use:   "hold [flags] NAME",
		Short: "Hold a lock in the background, until it is released",
		Long: `Hold a lock in the background, until 'turnwise release NAME', until the process that has called ends (or that of --pid), or for
a time. It prints lines for a shell to evaluate, with the same variables that a command of 'turnwise lock' has. Nobody stops the
shell if the hold is lost: ask 'turnwise check NAME --token $TURNWISE_TOKEN' before each step, or use 'turnwise lock'.`,
		Example: `  eval "$(turnwise hold deploy)" || exit
  ./step-one && turnwise check deploy --token "$TURNWISE_TOKEN" && ./step-two
  turnwise release deploy`,
		Args: exactly("NAME"),
	}
	f := c.Flags()
	f.BoolVarP(&shared, "shared", "s", false, "share it with others who do")
	f.BoolVarP(&j.try, "nonblock", "n", false, "do not wait at all")
	f.VarP(&j.wait, "wait", "w", "wait no longer than this")
	f.IntVarP(&j.busyCode, "conflict-exit-code", "E", codeBusy, "the exit `code` if somebody has it, or -w is over")
	f.Var(&j.ttl, "ttl", "how long the service keeps the place if nothing is heard")
	f.BoolVarP(&j.quiet, "quiet", "q", false, "say nothing of the wait")
	f.StringVar(&j.label, "label", "hold", "what others see of this one beside host and process")
	j.traceFlag(f)
	f.IntVar(&pid, "pid", 0, "until this `process` ends (default: the one that has called)")
	f.Var(&duration, "for", "for this time, whatever becomes of the one that has called")
	completeNames(s, c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		j.name, j.argv = args[0], []string{"hold"}
		j.lock(shared)
		if f.Changed("wait") {
			j.try = j.try || j.wait.Duration == 0
		} else {
			j.wait.Duration = -1
		}
		switch err := coord.CheckName(j.name); {
		case err != nil:
			return &failure{codeUsage, err}
		case f.Changed("pid") && f.Changed("for"):
			return usage("--pid and --for exclude each other")
		case f.Changed("pid") && (pid <= 0 || syscall.Kill(pid, 0) == syscall.ESRCH):
			return usage("--pid %d: there is no such process", pid)
		case f.Changed("for") && duration.Duration == 0:
			return usage("--for 0: it must be positive")
		case f.Changed("ttl") && j.ttl.Duration == 0:
			return usage("--ttl 0: it must be positive")
		}
		if os.Getenv(holderVariable) == "" {
			if _, _, err := s.find(); err != nil {
				return err
			}
			return inBackground()
		}
		until := func(ctx context.Context) { sleep(ctx, duration.Duration) }
		if duration.Duration == 0 {
			if pid == 0 {
				_, _ = fmt.Sscan(os.Getenv(holderVariable), &pid)
			}
			until = func(ctx context.Context) { outlived(ctx, pid) }
		}
		return j.keep(until)
	}
	return c
}

// inBackground starts this program again, in a session of its own, and returns when the new process holds or has failed.
func inBackground() error {
	program, err := os.Executable()
	if err != nil {
		return &failure{codeUnusable, err}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return &failure{codeUnusable, err}
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return &failure{codeUnusable, err}
	}
	defer r.Close()
	s := catch()
	keepFiles() // otherwise a reader of the script's pipe would wait for the new process
	p, err := os.StartProcess(program, os.Args, &os.ProcAttr{
		Env:   append(os.Environ(), fmt.Sprintf("%s=%d", holderVariable, os.Getppid())),
		Files: []*os.File{null, w, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	w.Close()
	if err != nil {
		return &failure{codeUnusable, err}
	}
	go func() {
		for sig := range s.pass {
			_ = p.Signal(sig)
		}
	}()
	var said bytes.Buffer
	_, _ = io.Copy(&said, r)
	if said.Len() > 0 {
		_, err := os.Stdout.Write(said.Bytes())
		if err != nil { // nobody will ever know of the hold
			_ = p.Signal(syscall.SIGTERM)
			return &failure{codeUnusable, err}
		}
		return nil
	}
	state, err := p.Wait()
	if err != nil {
		return &failure{codeUnusable, err}
	}
	code := state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = codeSignal + int(ws.Signal())
	}
	return fail(code, "%w", errSilent)
}

// keep holds until a signal comes, the hold is lost, or until returns.
func (j *job) keep(until func(ctx context.Context)) error {
	var err error
	if j.to, j.url, err = j.service.find(); err != nil {
		return err
	}
	people := os.Stderr
	if j.quiet {
		people = nil
	}
	j.reports = status.New(j.name, j.mode, people, false, nil)
	j.signals = catch()
	if err := j.open(); err != nil {
		return err
	}
	hold, err := j.take()
	if err != nil {
		j.close(err)
		if codeOf(err) == codeBusy {
			return taken(j.busyCode, err)
		}
		return err
	}
	if err := j.announce(hold.Token()); err != nil {
		hold.Release()
		j.close(nil)
		return &failure{codeUnusable, err}
	}
	over, cancel := j.signals.untilEnd(hold.Context())
	defer cancel()
	until(over)
	err = hold.Release()
	j.close(nil)
	return err
}

// announce prints what the shell is to evaluate, and lets the calling process go on.
func (j *job) announce(token coord.Token) error {
	var b strings.Builder
	all := append(j.variables(token), fmt.Sprintf("TURNWISE_HOLDER=%d", os.Getpid()))
	slices.Sort(all)
	for _, v := range all {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	if _, err := os.Stdout.WriteString(b.String()); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for _, f := range []*os.File{os.Stderr, os.Stdout} { // stdout last: its end tells the caller
		if err := replace(f, null); err != nil {
			return err
		}
	}
	return nil
}
