//go:build linux || darwin

package cli

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	"github.com/turnwise/turnwise/coord"
)

// request is what is asked of a line, and how long to wait for it: what all commands that take a turn have in common.
type request struct {
	name, mode string
	with       []string // further locks, to have at the same time
	withShared []string // the same, to share with others
	several    bool     // whoever holds may hold once more
	acquire    func(ctx context.Context, c *coord.Client, try bool) (turn, error)

	ask      string // what those ahead are asked while it waits; "": nothing
	try      bool
	wait     seconds
	busyCode int
	ttl      seconds
	quiet    bool
	label    string
	trace    string
	noteTurn bool
}

// waitFlags say how long to wait for the turn.
func (r *request) waitFlags(f *pflag.FlagSet) {
	f.BoolVarP(&r.try, "nonblock", "n", false, "do not wait at all")
	f.VarP(&r.wait, "wait", "w", "wait no longer than this")
	f.IntVarP(&r.busyCode, "conflict-exit-code", "E", codeBusy, "the exit `code` if somebody has it, or -w is over")
}

func (r *request) flags(f *pflag.FlagSet) {
	f.Var(&r.ttl, "ttl", "how long the service keeps the place if nothing is heard: 10s as it comes; 60s for a job that must outlast a pause of the service")
	f.BoolVarP(&r.quiet, "quiet", "q", false, "say nothing of the wait")
	f.BoolVar(&r.noteTurn, "note-turn", false, "once it is held for a second, write into the line since when: who, top and serve show it")
	f.StringVar(&r.trace, "trace", "", "append to this `file` who had the line, and when: for turnwise audit")
}

// askFlag adds the flag by which a wait asks those ahead to let go.
func (r *request) askFlag(f *pflag.FlagSet) {
	f.StringVar(&r.ask, "ask", "", "while it waits, ask those ahead to let go, with this `note`: they hear it if they listen (see turnwise ask)")
}

// check finds what no service can give.
func (r *request) check() error {
	names := r.names()
	for i, name := range names {
		if err := coord.CheckName(name); err != nil {
			return &failure{codeUsage, err}
		}
		if slices.Contains(names[:i], name) {
			return usage("%q is asked for twice", name)
		}
	}
	switch {
	case r.try && r.wait.Duration != 0:
		return usage("-n and -w exclude each other")
	case r.try && r.ask != "":
		return usage("-n does not wait, so nobody hears --ask")
	case r.ask != "" && len(names) > 1:
		return usage("--ask is for one lock alone: write turnwise ask for each of them")
	case r.busyCode < 0 || r.busyCode > 255:
		return usage("-E %d: an exit code is from 0 to 255", r.busyCode)
	case r.ttl.isZero():
		return usage("--ttl 0: it must be positive")
	}
	r.try = r.try || r.wait.isZero()
	return checkNote(r.ask)
}
