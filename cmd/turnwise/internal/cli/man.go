package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages into a directory",
		Args:  exactly("DIRECTORY"),
		RunE: func(c *cobra.Command, args []string) error {
			pages := append([]*cobra.Command{c.Root()}, c.Root().Commands()...)
			for _, p := range pages {
				if !p.IsAvailableCommand() && p.HasParent() {
					continue
				}
				path := filepath.Join(args[0], strings.ReplaceAll(p.CommandPath(), " ", "-")+".1")
				if err := os.WriteFile(path, []byte(page(p)), 0o644); err != nil {
					return &failure{codeUnusable, err}
				}
			}
			return nil
		},
	}
}

// page returns a command's manual page. The generator that comes with the command library needs a Markdown library, which
// costs half a millisecond at each start of turnwise.
func page(c *cobra.Command) string {
	var b strings.Builder
	title := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" turnwise turnwise\n", strings.ToUpper(title))
	section := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n%s\n", name, text)
		}
	}
	section("NAME", roff(title)+` \- `+roff(c.Short))
	section("SYNOPSIS", roff(c.UseLine()))
	section("DESCRIPTION", roff(c.Long))
	if c.Example != "" {
		section("EXAMPLES", ".nf\n"+roff(c.Example)+"\n.fi")
	}
	section("OPTIONS", options(c.NonInheritedFlags())+options(c.InheritedFlags()))
	var others []string
	for _, other := range append([]*cobra.Command{c.Root()}, c.Root().Commands()...) {
		if other != c && (!other.HasParent() || other.IsAvailableCommand()) {
			others = append(others, fmt.Sprintf(".BR %s (1)", roff(strings.ReplaceAll(other.CommandPath(), " ", "-"))))
		}
	}
	section("SEE ALSO", strings.Join(others, "\n"))
	return b.String()
}

func options(f *pflag.FlagSet) string {
	var b strings.Builder
	f.VisitAll(func(o *pflag.Flag) {
		if o.Hidden {
			return
		}
		what, usage := pflag.UnquoteUsage(o)
		name := "--" + o.Name
		if o.Shorthand != "" {
			name = "-" + o.Shorthand + ", " + name
		}
		fmt.Fprintf(&b, ".TP\n%s\n%s\n", roff(strings.TrimSpace(name+" "+what)), roff(usage))
	})
	return strings.TrimSuffix(b.String(), "\n")
}

// roff escapes text: no dash is typeset, and no line is taken for a command.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
