//go:build linux || darwin

package top

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v3"
)

// pause gives the terminal back, and stops this process and its group until the shell lets them go on.
func pause(screen tcell.Screen) error {
	if err := screen.Suspend(); err != nil {
		return err
	}
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	select { // this thread may run on for a moment
	case <-goesOn:
	case <-time.After(time.Second): // nobody could let us go on, so the system has not stopped us
	}
	return screen.Resume()
}
