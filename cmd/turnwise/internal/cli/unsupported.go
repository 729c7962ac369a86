//go:build !linux && !darwin

// Package cli has the commands of turnwise. This system cannot run them, because they rely on process groups and signals.
package cli

import (
	"fmt"
	"os"
)

// Main says that this system is not supported.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "turnwise: it needs Linux or macOS")
	return 73
}
