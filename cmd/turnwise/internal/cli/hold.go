//go:build linux || darwin

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

// holder is a lock to hold in the background, and until when.
type holder struct {
	request
	pid      int
	duration seconds
}

func holdCommand(s *service) *cobra.Command {
	h := &holder{}
	var shared bool
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
	h.flags(f)
	f.StringVar(&h.label, "label", "hold", "what others see of this one beside host and process")
	f.IntVar(&h.pid, "pid", 0, "until this `process` ends (default: the one that has called)")
	f.Var(&h.duration, "for", "for this time, whatever becomes of the one that has called")
	completeNames(s, c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		h.name = args[0]
		askForLock(&h.request, shared)
		if err := h.check(f.Changed("pid")); err != nil {
			return err
		}
		w, err := newWaiter(s, &h.request)
		if err != nil {
			return err
		}
		if os.Getenv(holderVariable) == "" {
			return inBackground()
		}
		return h.keep(w)
	}
	return c
}

func (h *holder) check(ofProcess bool) error {
	switch err := h.request.check(); {
	case err != nil:
		return err
	case ofProcess && h.duration.given:
		return usage("--pid and --for exclude each other")
	case ofProcess && (h.pid <= 0 || syscall.Kill(h.pid, 0) == syscall.ESRCH):
		return usage("--pid %d: there is no such process", h.pid)
	case h.duration.isZero():
		return usage("--for 0: it must be positive")
	}
	return nil
}

// inBackground starts this program again, in a session of its own, and returns when the new process holds or has failed.
func inBackground() error {
	program, err := run.Self()
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

// keep holds until a signal comes, the hold is lost, or there is no more reason to.
func (h *holder) keep(w *waiter) error {
	run.Rename()
	people := os.Stderr
	if h.quiet {
		people = nil
	}
	if err := w.connect(status.New(h.name, h.mode, people, false, nil)); err != nil {
		return err
	}
	err := w.heldAround()
	var hold *coord.Hold
	if err == nil {
		hold, err = w.take()
	}
	if err != nil {
		w.close(err)
		return err
	}
	over, cancel := w.signals.untilEnd(hold.Context())
	defer cancel()
	d, err := openDoor(doorplate{
		Line: h.name, Service: w.to.ID(), Token: hold.Token(), PID: os.Getpid(),
	}, cancel)
	if err != nil && !h.quiet { // the shell's end, a time or a signal still end it
		err = fmt.Errorf("%q: 'turnwise release' will not find this hold, process %d: %w", h.name, os.Getpid(), err)
		fmt.Fprintln(os.Stderr, text(err))
	}
	if err := announce(w.variables(hold.Token())); err != nil {
		err = errors.Join(err, hold.Release())
		w.close(nil)
		d.close(err)
		return &failure{codeUnusable, err}
	}
	h.last(over)
	err = hold.Release()
	w.close(nil)
	d.close(err)
	return err
}

// last returns when the time is over, the process has ended, or ctx has.
func (h *holder) last(ctx context.Context) {
	if h.duration.given {
		sleep(ctx, h.duration.Duration)
		return
	}
	pid := h.pid
	if pid == 0 {
		_, _ = fmt.Sscan(os.Getenv(holderVariable), &pid)
	}
	outlived(ctx, pid)
}

// announce prints what the shell is to evaluate, and lets the calling process go on.
func announce(variables []string) error {
	var b strings.Builder
	all := append(variables, fmt.Sprintf("TURNWISE_HOLDER=%d", os.Getpid()))
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
