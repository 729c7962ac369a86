//go:build linux || darwin

package cli

import (
	"errors"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/guard"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
)

// Main runs the program, and returns its exit code.
func Main(args []string) int {
	if len(args) > 1 && args[1] == guard.Name {
		return guard.Main()
	}
	root := rootCommand()
	root.SetArgs(args[1:])
	c, err := root.ExecuteC()
	people.Out.Flush(unheardFor)
	people.Err.Flush(unheardFor)
	if err == nil {
		return 0
	}
	code := codeOf(err)
	var own *ended
	if errors.As(err, &own) && own.typed != 0 {
		dieOf(own.typed, own.tell)
	}
	if errors.Is(err, errSilent) && code == codeSignal+int(syscall.SIGINT) && foreground() == syscall.Getpgrp() {
		dieOf(syscall.SIGINT, false) // typed while we waited
	}
	return report(c, err)
}

// unheardFor is how long the end of the program waits for people who have not read yet what was said before.
const unheardFor = time.Second

// endedBy says how the commands that run here would be ended.
func endedBy() string { return "are ended by " + run.Means() }
