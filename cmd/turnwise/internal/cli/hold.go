//go:build linux || darwin

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

// holder is a lock to hold in the background, and until when.
type holder struct {
	request
	pid      int
	duration seconds

	lasts   *run.Process      // until when; nil: it has ended already
	adopted chan *run.Process // another one instead, by which it is from now on
}

func holdCommand(s *service) *cobra.Command {
	h := &holder{}
	var shared bool
	c := &cobra.Command{
		Use:   "hold [flags] NAME",
		Short: "Hold a lock in the background, until it is released",
		Long: `Hold a lock in the background, until 'turnwise release NAME', until the shell ends that evaluates what this prints (or the process
of --pid), or for a time. That sets the same variables that a command of 'turnwise lock' has, and fails if nothing is held. If
nobody evaluates it, the lock is held until the process ends that has called, and ten seconds more. Nobody stops the shell if the
hold is lost: ask 'turnwise check NAME --token $TURNWISE_TOKEN' before each step, or use 'turnwise lock'.`,
		Example: `  eval "$(turnwise hold deploy)" || exit
  ./step-one && turnwise check deploy --token "$TURNWISE_TOKEN" && ./step-two
  turnwise release deploy`,
		Args: exactly("NAME"),
	}
	f := c.Flags()
	f.BoolVarP(&shared, "shared", "s", false, "share it with others who do")
	h.waitFlags(f)
	h.flags(f)
	h.askFlag(f)
	f.StringVar(&h.label, "label", "hold", "what others see of this one beside host and process")
	f.IntVar(&h.pid, "pid", 0, "until this `process` ends (default: the shell that evaluates the output)")
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
	hold := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error { return h.refuse(hold(c, args)) }
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return h.refuse(err) })
	of := c.Args
	c.Args = func(c *cobra.Command, args []string) error { return h.refuse(of(c, args)) }
	return c
}

// refuse lets the shell that evaluates our output fail as well: what is empty it takes for a success.
func (h *holder) refuse(err error) error {
	if err != nil && os.Getenv(holderVariable) == "" && !term.IsTerminal(1) {
		_, _ = fmt.Printf("(exit %d)\n", codeOf(err))
	}
	return err
}

func (h *holder) check(ofProcess bool) error {
	switch err := h.request.check(); {
	case err != nil:
		return err
	case ofProcess && h.duration.given:
		return usage("--pid and --for exclude each other")
	case h.duration.isZero():
		return usage("--for 0: it must be positive")
	}
	if ofProcess {
		p, err := run.Find(h.pid)
		if err != nil {
			return usage("--pid %d: there is no such process", h.pid)
		}
		p.Close()
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
	if err := h.attach(); err != nil {
		return err
	}
	if err := w.connect(status.New(h.name, h.mode, listeners(h.quiet), false, nil)); err != nil {
		return err
	}
	err := w.heldAround()
	var hold turn
	if err == nil {
		hold, err = w.take()
	}
	if err != nil {
		w.close(err)
		return err
	}
	if h.pid != 0 && !h.lasts.Alive() {
		hold.Release()
		w.close(nil)
		return fail(1, "%q: process %d has ended meanwhile: nothing is held", h.name, h.pid)
	}
	over, cancel := w.signals.untilEnd(hold.Context())
	defer cancel()
	d, err := openDoor(doorplate{
		Line: h.name, Service: w.to.ID(), Token: hold.Token(), PID: os.Getpid(),
	}, cancel, h.adoptFor)
	if err != nil && !h.quiet { // the shell's end, a time or a signal still end it
		err = fmt.Errorf("%q: 'turnwise release' will not find this hold, process %d: %w", h.name, os.Getpid(), err)
		fmt.Fprintln(people.Err, text(err))
	}
	if err := announce(h.question(d), w.variables(hold)); err != nil {
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

// attach finds the process for which to hold, before the wait: by the time the wait is over, its number may be another's.
func (h *holder) attach() (err error) {
	h.adopted = make(chan *run.Process, 1)
	if h.duration.given {
		return nil
	}
	pid := h.pid
	if pid == 0 {
		_, _ = fmt.Sscan(os.Getenv(holderVariable), &pid)
	}
	h.lasts, err = run.Find(pid)
	if err != nil && h.pid != 0 {
		return usage("--pid %d: there is no such process", h.pid)
	}
	return nil // who has called may have ended already, and a shell still evaluates what it hears
}

// adoptFor has the line held until a process ends, the shell that evaluates what we have printed.
func (h *holder) adoptFor(pid int) error {
	if h.pid != 0 || h.duration.given {
		return nil // somebody has said otherwise
	}
	p, err := run.Find(pid)
	if err != nil {
		return fmt.Errorf("there is no process %d", pid)
	}
	for {
		select {
		case h.adopted <- p:
			return nil
		case before := <-h.adopted: // the newest counts
			before.Close()
		}
	}
}

// unadoptedFor is how long a shell may take to evaluate what we have printed, once the process that has called has ended. That
// is often a subshell, which ends at once.
const unadoptedFor = 10 * time.Second

// last returns when the time is over, the process has ended, or ctx has.
func (h *holder) last(ctx context.Context) {
	if h.duration.given {
		sleep(ctx, h.duration.Duration)
		return
	}
	for stays := h.pid != 0; ; {
		lasting, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if h.lasts != nil {
				h.lasts.Outlive(lasting)
			}
			if !stays {
				sleep(lasting, unadoptedFor)
			}
		}()
		select {
		case <-ended:
			stop()
			return
		case next := <-h.adopted:
			stop()
			<-ended
			h.lasts, stays = next, true
		}
	}
}

// question returns a shell's command that succeeds if this process still holds, and tells it which shell asks.
func (h *holder) question(d *door) string {
	program, err := os.Executable()
	if d == nil || err != nil || h.pid != 0 || h.duration.given {
		return fmt.Sprintf("kill -0 %d", os.Getpid())
	}
	return quoted(program) + " " + adoptName + " " + quoted(d.path)
}

// quoted returns a text as one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

const adoptName = "hold-for-this-shell"

// adoptCommand is what a shell runs when it evaluates the output of hold.
func adoptCommand() *cobra.Command {
	return &cobra.Command{
		Use:    adoptName + " SOCKET",
		Hidden: true,
		Args:   exactly("SOCKET"),
		RunE: func(_ *cobra.Command, args []string) error {
			shell := os.Getppid()
			v, err := visitOne(context.Background(), args[0])
			var a doorAnswer
			if err == nil {
				defer v.conn.Close()
				err = json.NewEncoder(v.conn).Encode(doorRequest{For: shell})
			}
			if err == nil {
				err = v.in.Decode(&a)
			}
			switch {
			case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
				return fail(1, "nothing is held any more: %w", err)
			case err != nil: // another user's, say
				return fail(1, "the process that holds cannot be told for which shell: %w", err)
			case !a.Adopted:
				return fail(1, "%q is not held for this shell: %s", v.Line, coord.Printable(a.Why))
			}
			return nil
		},
	}
}

// announce prints what the shell is to evaluate, and lets the calling process go on.
func announce(question string, variables []string) error {
	all := append(variables, fmt.Sprintf("TURNWISE_HOLDER=%d", os.Getpid()))
	slices.Sort(all)
	var b strings.Builder
	b.WriteString(question + " && export")
	for _, v := range all {
		name, value, _ := strings.Cut(v, "=")
		b.WriteString(" " + name + "=" + quoted(value))
	}
	b.WriteString(" || false\n")
	if _, err := os.Stdout.WriteString(b.String()); err != nil {
		return err
	}
	return toNowhere(os.Stderr, os.Stdout) // stdout last: its end tells the caller
}

// toNowhere has nothing come from files, and what is written to them go nowhere.
func toNowhere(files ...*os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for _, f := range files {
		if err := replace(f, null); err != nil {
			return err
		}
	}
	return nil
}
