// Turnwise runs commands while it holds a lock, a permit or a leader's seat, and shows who has them: see docs/tool.md.
package main

import (
	"os"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
