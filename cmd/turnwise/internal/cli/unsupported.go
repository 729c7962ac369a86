//go:build !linux && !darwin

// Package cli is the commands of turnwise, which this system cannot run: they rest on process groups and signals.
package cli

import (
	"fmt"
	"os"
)

// Main says that this system will not do.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "turnwise: it needs Linux or macOS")
	return 73
}
