//go:build linux || darwin

package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages into a directory",
		Args:  exactly("DIRECTORY"),
		RunE: func(c *cobra.Command, args []string) error {
			c.Root().DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "TURNWISE", Section: "1", Source: "turnwise", Manual: "turnwise"}
			if err := doc.GenManTree(c.Root(), header, args[0]); err != nil {
				return &failure{codeUnusable, err}
			}
			return nil
		},
	}
}
