package run

import (
	"os"
	"path/filepath"
)

// Self returns a path at which a process that this one starts finds this very program. What lies at the path from which this
// one was started may be another by now, or nothing.
func Self() (string, error) { return "/proc/self/exe", nil }

// Rename lets lists of processes show this program's name: started by Self it would be "exe".
func Rename() {
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0)
}
