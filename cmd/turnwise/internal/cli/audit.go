package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord/trace"
)

func auditCommand() *cobra.Command {
	var skew seconds
	c := &cobra.Command{
		Use:   "audit [flags] FILE...",
		Short: "Say whether anything was wrong, from the traces of all who used the lines",
		Long: `Say whether two ever had a line at once that only one may have, somebody was let in out of turn, or a token was given twice, from the
traces that 'turnwise lock --trace FILE' and programs have written: those of all who used the lines. A FILE that is - is standard
input. Exit code 0 says that nothing was wrong in what could be judged, 1 that something was, 69 that there was nothing to judge.

Processes of one Linux machine share a clock. Those of others do not, and their clocks are taken to differ by --skew at most: if it
is too large less is found, if it is too small what is found may not be true.`,
		Example: `  turnwise lock --trace here.jsonl nightly-backup -- ./backup.sh
  turnwise audit here.jsonl there.jsonl`,
		Args: some("there is no file: write those that --trace has written, or - for standard input"),
	}
	skew.Duration = trace.DefaultSkew
	c.Flags().Var(&skew, "skew", "by how much the clocks of machines may differ")
	c.RunE = func(_ *cobra.Command, args []string) error {
		a := trace.NewAudit(skew.Duration)
		for _, name := range args {
			if err := readTrace(a, name); err != nil {
				return &failure{codeUsage, err}
			}
		}
		v := a.Verdict()
		for i, f := range v.Wrong {
			if i == mostFindings {
				fmt.Printf("and %d more\n", len(v.Wrong)-i)
				break
			}
			fmt.Println(f)
		}
		_, err := fmt.Println(v)
		switch {
		case err != nil:
			return unwritten(err)
		case len(v.Wrong) > 0:
			return fail(codeWrong, "%w", errSilent)
		case v.Turns == 0:
			return fail(codeUnreachable, "there is no turn in these traces: nothing was judged")
		}
		return nil
	}
	return c
}

// mostFindings is how many findings are reported: in traces that do not belong together, everything may be one.
const mostFindings = 100

func readTrace(a *trace.Audit, name string) error {
	var in io.Reader = os.Stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	return a.Read(name, in)
}
