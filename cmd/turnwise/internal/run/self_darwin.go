package run

import (
	"fmt"
	"os"
)

var (
	executable, executableErr = os.Executable()
	begun, begunErr           = os.Stat(executable)
)

// Self returns a path at which a process that this one starts finds this program. On this system a program cannot be named
// but by its path. So it refuses if another lies there than when this one was started; in the moment in between somebody who
// may replace the program can still do so.
func Self() (string, error) {
	if executableErr != nil {
		return "", executableErr
	}
	now, err := os.Stat(executable)
	if err != nil {
		return "", err
	}
	if begunErr != nil || !os.SameFile(begun, now) || begun.Size() != now.Size() || !begun.ModTime().Equal(now.ModTime()) {
		return "", fmt.Errorf("%s is another program than when this one was started", executable)
	}
	return executable, nil
}

// Rename does nothing: here lists of processes show the program's name.
func Rename() {}
