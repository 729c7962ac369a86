//go:build linux || darwin

package cli

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/turnwise/turnwise/coord"
)

// program is the command to run under a hold, and how it is made to end.
type program struct {
	argv  []string
	path  string
	shell string // a line for the shell; "": the command has words

	grace   seconds
	maxHold seconds
	alone   bool
	onAsk   askSignal
}

func (p *program) flags(f *pflag.FlagSet) {
	f.StringVarP(&p.shell, "command", "c", "", "run this `line` with the shell, $SHELL or /bin/sh, instead of COMMAND")
	p.grace.Duration = 5 * time.Second
	f.Var(&p.grace, "grace", "how long the command has from SIGTERM to SIGKILL; less if the ttl is short")
	f.Var(&p.maxHold, "max-hold", "end the command after this time")
	f.Var(&p.onAsk, "on-ask", "send the command this `signal` when somebody asks for the line with turnwise ask, such as USR1 or TERM (default: it does not listen)")
	f.BoolVarP(&p.alone, "close", "o", false, "the command alone counts, not what it has started and left behind")
}

// arguments takes what stands behind the line's name: [--] COMMAND [ARGUMENT...], or -c LINE as for flock(1).
func (p *program) arguments(f *pflag.FlagSet, name string, args []string) error {
	if len(args) == 2 && args[0] == "-c" && p.shell == "" {
		p.shell, args = args[1], nil
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	} else if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		return usage("%s stands behind the name: flags come before it, and -- before a command that begins with -", coord.Printable(args[0]))
	}
	switch {
	case f.Changed("command") && p.shell == "":
		return usage("-c needs a line for the shell")
	case p.shell != "" && len(args) > 0:
		return usage("-c and COMMAND exclude each other")
	case p.shell != "":
		args = []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh"), "-c", p.shell}
	case len(args) == 0 && f.ArgsLenAtDash() == 0:
		return usage("there is no name before --: write NAME -- %s", coord.Printable(name))
	case len(args) == 0 || args[0] == "":
		return usage("there is no command: write %s -- COMMAND", coord.Printable(name))
	}
	p.argv = args
	if p.maxHold.isZero() {
		return usage("--max-hold 0: it must be positive")
	}
	return nil
}

// find finds the program's file.
func (p *program) find() (err error) {
	if _, ok := os.LookupEnv("PATH"); !ok { // as it is for shells
		os.Setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
		defer os.Unsetenv("PATH")
	}
	if p.path, err = exec.LookPath(p.argv[0]); err != nil {
		return unstarted(p.argv[0], err)
	}
	return nil
}

// shortName is what others see of the command if no label says more.
func (p *program) shortName() string {
	if p.shell != "" {
		return "sh"
	}
	return filepath.Base(p.argv[0])
}
