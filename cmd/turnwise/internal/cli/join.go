//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/recipes/group"
)

// membership is a place in a group, and until when.
type membership struct {
	name, value, label string
	pid                int
	ttl                seconds
	quiet              bool
}

func joinCommand(s *service) *cobra.Command {
	m := &membership{}
	c := &cobra.Command{
		Use:   "join [flags] NAME",
		Short: "Be a member of a group, until this is ended",
		Long: `Be a member of a group, until a signal ends this or the process of --pid has ended. 'turnwise members NAME' lists who is a member,
with what each says about itself (--value). Whenever it has become a member it prints its token. If the membership is lost it joins
again; a process that is a member does not end for that, so this is for who wants to be found, and not for who must be alone. Give a
group a name of its own: who locks the same name waits for all members, and those who come meanwhile wait for him.

Exit codes: 0 the process of --pid has ended; 128+n by signal n; 76 taken away by an operator.`,
		Example: `  turnwise join --value "$(hostname):8080" --pid $$ web &      in the script that becomes the server
  exec ./server`,
		Args: exactly("NAME"),
	}
	f := c.Flags()
	f.StringVar(&m.value, "value", "", "what to `show` to those who look")
	f.StringVar(&m.label, "label", "join", "what others see of this one beside host and process")
	f.IntVar(&m.pid, "pid", 0, "until this `process` ends")
	f.Var(&m.ttl, "ttl", "how long it stays a member if nothing is heard of it: 10s as it comes")
	f.BoolVarP(&m.quiet, "quiet", "q", false, "print no tokens, and say nothing of a membership that is lost")
	completeNames(s, c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		m.name = args[0]
		if err := coord.CheckName(m.name); err != nil {
			return refused(err)
		}
		switch {
		case len(m.value) > coord.MaxData:
			return usage("--value has %d bytes, at most %d are allowed", len(m.value), coord.MaxData)
		case m.ttl.isZero():
			return usage("--ttl 0: it must be positive")
		}
		ctx, stop := interruptible()
		defer stop()
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // its place would stay for as long as the service waits for it
		if f.Changed("pid") {
			p, err := run.Find(m.pid)
			if err != nil {
				return usage("--pid %d: there is no such process", m.pid)
			}
			defer p.Close()
			lives, over := context.WithCancel(ctx)
			go func() {
				defer over()
				p.Outlive(lives)
			}()
			defer over()
			ctx = lives
		}
		opts := []backend.Option{backend.WithClient(coord.WithOwnerLabel(m.label))}
		if m.ttl.Duration > 0 {
			opts = append(opts, backend.WithTTL(m.ttl.Duration))
		}
		err := s.look(ctx, m.stay, opts...)
		if errors.Is(context.Cause(ctx), context.Canceled) { // the process has ended, so nobody is there to be found
			return nil
		}
		return err
	}
	return c
}

// stay joins again and again, until ctx ends.
func (m *membership) stay(ctx context.Context, c *coord.Client) error {
	var retries driverkit.Retries
	for ctx.Err() == nil {
		began := time.Now()
		err := m.once(ctx, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, coord.ErrRemoved), coord.IsLasting(err):
			return refused(err)
		case !m.quiet:
			fmt.Fprintln(people.Err, text(fmt.Errorf("%q: no member any more, joining again: %w", m.name, err)))
		}
		_ = retries.Sleep(ctx, began)
	}
	return ctx.Err()
}

// once is one membership. It returns why that ended.
func (m *membership) once(ctx context.Context, c *coord.Client) error {
	h, err := group.New(c, m.name).Join(ctx, []byte(m.value))
	if err != nil {
		return err
	}
	defer h.Release()
	if !m.quiet {
		_, _ = fmt.Fprintln(people.Out, h.Token()) // nobody may listen any more, and it is a member all the same
	}
	member, cancel := h.With(ctx)
	defer cancel()
	<-member.Done()
	return h.Err()
}
