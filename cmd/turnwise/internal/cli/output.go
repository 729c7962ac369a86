package cli

import (
	"os"

	"golang.org/x/term"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
)

func printJSON(v any) error {
	_, err := os.Stdout.Write(status.JSON(v))
	return unwritten(err)
}

// unwritten gives an error of writing to standard output its exit code.
func unwritten(err error) error {
	if err != nil {
		return &failure{codeUnusable, err}
	}
	return nil
}

// printer writes to standard output, and remembers the first error.
type printer struct{ failed error }

func (p *printer) Write(b []byte) (int, error) {
	n, err := os.Stdout.Write(b)
	if p.failed == nil {
		p.failed = unwritten(err)
	}
	return n, err
}

// canDraw reports whether there is a terminal that can be redrawn.
func canDraw() bool {
	kind := os.Getenv("TERM")
	return term.IsTerminal(0) && term.IsTerminal(1) && kind != "" && kind != "dumb"
}

// drawn gives an error of drawing its exit code.
func drawn(err error) error {
	if err != nil {
		return fail(codeUnusable, "this terminal cannot be drawn on (%w): append | cat for plain lines", err)
	}
	return nil
}
