package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/asks"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// asker asks those who have a line to let go.
type asker struct {
	name, note string
	id         string // of the only one who is asked; "": all who have it are
	wait       seconds
}

// politely is what an ask without a note says.
const politely = "please"

// mostNoted is how many bytes coord.Asking takes.
const mostNoted = 200

func askCommand(s *service) *cobra.Command {
	a := &asker{}
	c := &cobra.Command{
		Use:   "ask [flags] NAME [NOTE...]",
		Short: "Ask those who have a line to let go of it",
		Long: `Ask those who have a line to let go of it, and say who they are. They hear the NOTE if they listen: a command that was started with
--on-ask gets a signal, and a program hears of it by coord.Hold.Wanted. Nobody has to listen, and nobody has to let go; who does not
want to is not thrown out. Nobody can tell from outside whether somebody listens.

Whoever asks stands in the line, behind all others, until those who were asked have let go: for 10 s at most, or for as long as -w
says. Who comes meanwhile stands behind, and who waits already has his turn as before. Exit codes: 0 somebody was asked; 1 nobody
has the line; 75 with -w: somebody has it still.`,
		Example: `  turnwise ask nightly the database is moved at noon
  turnwise ask -w 10m nightly && turnwise lock -n nightly -- ./move`,
		Args: some("there is no name"),
	}
	c.Flags().StringVar(&a.id, "id", "", "ask only the one with this `ID`: what who shows as the ID, its beginning, or the token")
	c.Flags().VarP(&a.wait, "wait", "w", "wait so long for those who were asked to let go")
	completeNames(s, c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		a.name, a.note = args[0], cmp.Or(strings.Join(args[1:], " "), politely)
		if err := a.check(); err != nil {
			return err
		}
		to, _, err := s.find()
		if err != nil {
			return err
		}
		ctx, stop := interruptible()
		defer stop()
		return s.look(ctx, func(ctx context.Context, c *coord.Client) error { return a.ask(ctx, c, to) }, backend.WithClient(coord.WithOwnerLabel("ask")))
	}
	return c
}

// check finds what no service can give.
func (a *asker) check() error {
	if err := coord.CheckName(a.name); err != nil {
		return &failure{codeUsage, err}
	}
	if a.wait.isZero() {
		return usage("-w 0: it must be positive, or nobody hears of it")
	}
	return checkNote(a.note)
}

func checkNote(note string) error {
	switch {
	case len(note) > mostNoted:
		return usage("the note has %d bytes, at most %d are allowed", len(note), mostNoted)
	case coord.Printable(note) != note:
		return usage("the note is to be one line, all printable and without a backslash: %s", coord.Printable(note))
	}
	return nil
}

// heardFor is how long an ask stands in the line, so that those who listen hear of it on a service or a machine that is busy.
const heardFor = 10 * time.Second

func (a *asker) ask(ctx context.Context, c *coord.Client, to *backend.Service) error {
	have, err := a.whom(ctx, c, to.ID())
	if err != nil {
		return err
	}
	var tokens []coord.Token
	for _, n := range have {
		tokens = append(tokens, n.Token)
	}
	joined, ended := make(chan struct{}, 1), make(chan error, 1)
	inLine, leave := context.WithCancel(ctx)
	defer leave()
	go func() {
		defer leave()
		h, err := c.Acquire(inLine, a.name, rules.Lock, asks.Of(tokens), coord.RuleOf(rules.Lock), coord.Asking(a.note), coord.OnWait(func() {
			select {
			case joined <- struct{}{}:
			default: // it has joined anew
			}
		}))
		if err == nil {
			err = h.Release()
		}
		ended <- err
	}()
	select {
	case <-joined:
	case <-time.After(reachFor):
		return a.notInLine(c, to)
	case err := <-ended:
		if err == nil {
			return fail(1, "%q: who had it has let go meanwhile: nobody was asked", a.name)
		}
		return refused(err)
	}
	told := make(chan error, 1)
	go func(all []coord.Node) { told <- tell(all) }(slices.Clone(have)) // who does not read it keeps nobody waiting who stands behind us
	err = a.await(inLine, c, have, leave, ended)
	leave()
	select {
	case unwritten := <-told:
		return cmp.Or(err, unwritten)
	case <-ctx.Done():
		return cmp.Or(err, ctx.Err())
	}
}

// tell says who was asked.
func tell(asked []coord.Node) error {
	for _, n := range asked {
		if _, err := fmt.Println("asked: " + standing(n)); err != nil {
			return unwritten(err)
		}
	}
	return nil
}

// await stands in the line until those who were asked have let go, or it is time to leave.
func (a *asker) await(inLine context.Context, c *coord.Client, have []coord.Node, leave func(), ended <-chan error) error {
	limited, stop := context.WithTimeout(inLine, cmp.Or(a.wait.Duration, heardFor))
	defer stop()
	have, err := a.untilGone(limited, c, have)
	if err != nil {
		return refused(err)
	}
	over := len(have) == 0 || errors.Is(limited.Err(), context.DeadlineExceeded)
	leave()
	switch err := <-ended; {
	case err == nil: // its turn has come
		a.gone(have)
		return nil
	case !over:
		return refused(err)
	}
	return a.stay(have)
}

func (a *asker) notInLine(c *coord.Client, to *backend.Service) error {
	if left := recovery(c); left > 0 {
		return fail(codeUnreachable, "%q: nobody was asked: %s", a.name, recovers(to, left))
	}
	return fail(codeUnreachable, "%q: nobody was asked: no place in the line within %v", a.name, reachFor)
}

// whom returns who is to be asked: those who have the line, but for those whom this one runs in.
func (a *asker) whom(ctx context.Context, c *coord.Client, service string) ([]coord.Node, error) {
	line, err := c.Line(ctx, a.name)
	if err != nil {
		return nil, refused(err)
	}
	var have, ours []coord.Node
	for _, n := range line {
		switch {
		case !n.Holds:
		case slices.Contains(heldAround(service), held{a.name, service, n.Token}):
			ours = append(ours, n)
		default:
			have = append(have, n)
		}
	}
	if a.id != "" {
		n, err := meant(line, a.name, a.id)
		switch {
		case err != nil:
			return nil, err
		case !n.Holds:
			return nil, fail(1, "%s waits for %q: only who has it can be asked to let go", contenderOf(n).who(), a.name)
		}
		only := func(all []coord.Node) []coord.Node {
			return slices.DeleteFunc(all, func(other coord.Node) bool { return other.Token != n.Token })
		}
		have, ours = only(have), only(ours)
	}
	switch {
	case len(have) > 0:
		return have, nil
	case len(ours) > 0:
		return nil, fail(1, "%q is held by what this one runs in (%s): it would ask itself", a.name, holdsVariable)
	case len(line) > 0:
		return nil, fail(1, "nobody has %q at this moment: nobody was asked", a.name)
	}
	return nil, fail(1, "nobody stands in %q: nobody was asked ('turnwise ls' lists the lines)", a.name)
}

// untilGone waits until those who were asked have let go, says who has, and returns those who have not when ctx ends. It returns an
// error if nobody can see that.
func (a *asker) untilGone(ctx context.Context, c *coord.Client, asked []coord.Node) ([]coord.Node, error) {
	for v, err := range c.WatchLine(ctx, a.name) {
		switch {
		case coord.IsLasting(err):
			return asked, err
		case err != nil:
			continue
		}
		stays := func(n coord.Node) bool {
			return slices.ContainsFunc(v.Nodes, func(now coord.Node) bool { return now.Token == n.Token })
		}
		a.gone(slices.DeleteFunc(slices.Clone(asked), stays))
		if asked = slices.DeleteFunc(asked, func(n coord.Node) bool { return !stays(n) }); len(asked) == 0 {
			break
		}
	}
	return asked, nil
}

func (a *asker) gone(all []coord.Node) {
	for _, n := range all {
		fmt.Fprintf(people.Err, "turnwise: %q: %s has let go\n", a.name, contenderOf(n).who())
	}
}

// stay says who has not let go.
func (a *asker) stay(all []coord.Node) error {
	if len(all) == 0 {
		return nil
	}
	var who []string
	for _, n := range all[:min(len(all), 3)] {
		who = append(who, contenderOf(n).who())
	}
	if more := len(all) - len(who); more > 0 {
		who = append(who, fmt.Sprintf("%d more", more))
	}
	still := fmt.Errorf("%q: still held by %s: nobody has to let go, and a command that was started without --on-ask hears nothing", a.name, strings.Join(who, ", "))
	if a.wait.given {
		return &failure{codeBusy, still}
	}
	fmt.Fprintln(people.Err, text(still))
	return nil
}
