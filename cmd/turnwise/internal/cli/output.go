//go:build linux || darwin

package cli

import (
	"encoding/json"
	"os"
)

func printJSON(v any) error {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	return unwritten(out.Encode(v))
}

// unwritten gives an error of writing to standard output its exit code.
func unwritten(err error) error {
	if err != nil {
		return &failure{codeUnusable, err}
	}
	return nil
}
