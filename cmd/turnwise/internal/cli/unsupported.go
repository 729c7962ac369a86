//go:build !linux && !darwin

package cli

import (
	"errors"
	"net"
	"os"

	"github.com/spf13/cobra"
)

// On this system turnwise shows lines and breaks them. What holds something needs process groups and signals, and a few things
// besides need other calls that this system has not.

// Main runs the program, and returns its exit code.
func Main(args []string) int {
	root := rootCommand()
	root.SetArgs(args[1:])
	c, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	return report(c, err)
}

var errElsewhere = errors.New("it needs Linux or macOS")

// elsewhere is a command that works on other systems only. It says so, whatever is asked of it.
func elsewhere(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "On Linux and macOS only", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return fail(codeUnusable, "%s: %w", name, errElsewhere) },
	}
}

func lockCommand(*service) *cobra.Command    { return elsewhere("lock") }
func semCommand(*service) *cobra.Command     { return elsewhere("sem") }
func electCommand(*service) *cobra.Command   { return elsewhere("elect") }
func onceCommand(*service) *cobra.Command    { return elsewhere("once") }
func cronCommand(*service) *cobra.Command    { return elsewhere("cron") }
func shardsCommand(*service) *cobra.Command  { return elsewhere("shards") }
func holdCommand(*service) *cobra.Command    { return elsewhere("hold") }
func joinCommand(*service) *cobra.Command    { return elsewhere("join") }
func releaseCommand(*service) *cobra.Command { return elsewhere("release") }
func publishCommand(*service) *cobra.Command { return elsewhere("publish") }

// adoptCommand is what a shell calls that holds something.
func adoptCommand() *cobra.Command {
	c := elsewhere("adopt")
	c.Hidden = true
	return c
}

// endedBy says that no commands run here.
func endedBy() string { return "run under a hold on Linux and macOS only" }

// enoughFiles knows of no limit here.
func enoughFiles() error { return nil }

// openConfiguration leaves it to the rights of the folder who may write it.
func openConfiguration(path string) (*os.File, error) { return os.Open(path) }

// leaveHome leaves it to the rights of the home who may write there.
func leaveHome(string) (back func(), err error) { return func() {}, nil }

func ownSocket(string) (string, error) { return "", errElsewhere }

func listenPrivately(string) (*net.UnixListener, error) {
	return nil, fail(codeUnusable, "--socket: %w", errElsewhere)
}
