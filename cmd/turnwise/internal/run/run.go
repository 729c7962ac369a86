//go:build linux || darwin

// Package run starts a command, knows when everything that the command has started has gone, and makes sure that it goes in
// time.
//
// On Linux the process that starts the command is a subreaper: whatever the command has started remains its descendant for
// as long as it lives, even after a double fork or a setsid. So when the subreaper has no child left, all of them have
// gone. On other systems the command's process group has to do.
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

	Alone      bool   // only the command counts, not what it has started
	Foreground bool   // it gets into the foreground of the terminal that is its standard input
	Mortal     bool   // it dies with the process that has started it, however that dies (on Linux)
	Outlives   bool   // it goes on when the process that has started it has gone, and so does its keeper
	Cgroup     string // the folder of a control group to start it in; "" if there is none

	Files []*os.File `json:"-"` // it also inherits these, in addition to standard input, output and error
}

// Child is a running command, in this process's care or in another's.
type Child interface {
	// Events returns the channel of what happens to it. The last event is Gone.
	Events() <-chan Event

	// Limit sets when it must end. An earlier limit no longer counts, unless it has already passed.
	Limit(Limit)

	// Signal sends a signal to the command's process group.
	Signal(os.Signal)

	// Tell sends a signal to the command alone, and not to what it has started.
	Tell(os.Signal)

	// End ends everything with SIGTERM and, after the grace, with SIGKILL; without a grace it does so at once.
	End(grace time.Duration)
}

// Limit is when a command is asked to end, and when it is made to end. If it is in another process's care, Last is when
// that process is no longer relied on. The zero Limit is no limit.
type Limit struct {
	Term, Kill, Last Moment
}

// Over reports whether the time has come at which the command is made to end.
func (l Limit) Over() bool { return l.Kill != 0 && l.Kill.Until() <= 0 }

// Event is something that has happened to a child.
type Event struct {
	What   What
	Pid    int    `json:",omitempty"` // of Started
	Signal int    `json:",omitempty"` // of Stopped
	Code   int    `json:",omitempty"` // of Exited: as shells count, 128 + n for signal n
	Status int    `json:",omitempty"` // of Exited: the signal that ended it, or 0
	At     Moment `json:",omitempty"` // of Gone
}

// What says what has happened.
type What int

const (
	Started    What = iota + 1 // it runs
	Stopped                    // a signal has stopped the command
	Exited                     // the command has ended; what it has started may still run
	Endangered                 // its limit has come, and it is asked to end
	Gone                       // all that counts has ended
)

// Moment is a time of the machine's monotonic clock, in nanoseconds, which all its processes share. The zero Moment never
// comes.
type Moment int64

// In returns the moment d from now.
func In(d time.Duration) Moment { return Now() + Moment(d) }

// Until returns how long it is until m.
func (m Moment) Until() time.Duration { return time.Duration(m - Now()) }
