//go:build linux || darwin

// Package run starts a command, knows when all that it has started is gone, and sees to it that it is gone in time.
//
// On Linux the process that starts it is a subreaper: whatever the command has started is its descendant for as long as it
// lives, also after a double fork or a setsid. So when it has no child left, all of them are gone. On other systems the
// command's process group has to do.
package run

import (
	"os"
	"time"
)

// Command is what is to run.
type Command struct {
	Path string   // of the program
	Args []string // from its name on
	Env  []string

	Alone      bool   // the command alone counts, not what it has started
	Foreground bool   // it becomes the foreground of the terminal that is its standard input
	Mortal     bool   // it dies with the process that has started it, however that dies (on Linux)
	Cgroup     string // the folder of a control group to start it in; "" if there is none

	Files []*os.File `json:"-"` // it inherits these besides standard input, output and error
}

// Child is a command that runs, in this process's care or in another's.
type Child interface {
	// Events tells what happens to it. The last is Gone.
	Events() <-chan Event

	// Limit sets when it must end. What was set before no longer counts, unless that has passed.
	Limit(Limit)

	// Signal sends a signal to the command's process group.
	Signal(os.Signal)

	// End ends all with SIGTERM, and after the grace with SIGKILL: at once if there is none.
	End(grace time.Duration)
}

// Limit is when a command is asked to end, and when it is made to. If it is in another process's care, Last is when one does not
// rely on that process any longer. The zero Limit is none.
type Limit struct {
	Term, Kill, Last Moment
}

// Event is something that has happened to a child.
type Event struct {
	What   What
	Pid    int    `json:",omitempty"` // of Started
	Signal int    `json:",omitempty"` // of Stopped
	Code   int    `json:",omitempty"` // of Exited: as a shell has it, 128 + n for signal n
	Status int    `json:",omitempty"` // of Exited: the signal that ended it, or 0
	At     Moment `json:",omitempty"` // of Gone
}

// What is what has happened.
type What int

const (
	Started    What = iota + 1 // it runs
	Stopped                    // a signal has stopped the command
	Exited                     // the command has ended; what it has started may go on
	Endangered                 // its limit has come, and it was asked to end
	Gone                       // all that counts has ended
)

// Moment is a point of the machine's monotonic clock, in nanoseconds, which all its processes share. The zero Moment never
// comes.
type Moment int64

// In returns the moment after a while from now.
func In(d time.Duration) Moment { return Now() + Moment(d) }

// Until is how long it is until a moment.
func (m Moment) Until() time.Duration { return time.Duration(m - Now()) }
