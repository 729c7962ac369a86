// Package cli has the commands of turnwise: their flags, and what they do. docs/tool.md tells users what they mean.
package cli

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
)

// report says what an error of a command means, and returns its exit code.
func report(c *cobra.Command, err error) int {
	code := codeOf(err)
	if !silent(err) {
		fmt.Fprintln(os.Stderr, text(err))
		if code == codeUsage {
			fmt.Fprintf(os.Stderr, "Try: %s --help\n", c.CommandPath())
		}
	}
	return code
}

func rootCommand() *cobra.Command {
	s := &service{}
	root := &cobra.Command{
		Use:   "turnwise",
		Short: "Run commands under a lock, and see who has it",
		Long: `Run commands while they hold a lock, a permit or a leader's seat, on ZooKeeper, etcd, Redis, PostgreSQL, MariaDB, memcached, NATS,
Kubernetes or in a directory, and see who has them. Without --backend, TURNWISE_BACKEND and a configuration it is a directory of yours, for
all your processes on this machine.`,
		SilenceErrors: true, SilenceUsage: true,
		Version: version(),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				like := ""
				if all := c.SuggestionsFor(args[0]); len(all) > 0 {
					like = ": did you mean " + strings.Join(all, " or ") + "?"
				}
				return usage("there is no command %s%s", coord.Printable(args[0]), like)
			}
			return c.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SuggestionsMinimumDistance = 2
	s.flags(root.PersistentFlags())
	root.AddCommand(lockCommand(s), semCommand(s), electCommand(s), onceCommand(s), cronCommand(s), shardsCommand(s), lsCommand(s), whoCommand(s), memoCommand(s), barrierCommand(s), joinCommand(s), membersCommand(s), watchCommand(s), topCommand(s), checkCommand(s),
		publishCommand(s), askCommand(s), breakCommand(s), holdCommand(s), adoptCommand(), releaseCommand(s), doctorCommand(s), auditCommand(), serveCommand(s), manCommand())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // for an unknown shell, the library's own shows help and succeeds
			c.Args, c.RunE = cobra.ArbitraryArgs, func(*cobra.Command, []string) error {
				return usage("write completion bash, completion zsh or completion fish")
			}
		}
	}
	return root
}

// released is set by whoever builds a release (tools/release): the go command stamps a version only into what it fetches itself.
var released string

func version() string {
	if released != "" {
		return released
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
