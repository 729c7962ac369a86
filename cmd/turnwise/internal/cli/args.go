package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/turnwise/turnwise/coord"
)

// some demands at least one argument; missing says what to write.
func some(missing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("%s", missing)
		}
		return nil
	}
}

// exactly demands one argument; what says what that is.
func exactly(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usage("there is no %s", strings.ToLower(what))
		case len(args) > 1:
			return usage("%s is one argument too many", coord.Printable(args[1]))
		}
		return nil
	}
}

func atMost(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("%s is one argument too many", coord.Printable(args[n]))
		}
		return nil
	}
}

// seconds is a duration that may be written as a bare number of seconds, as for flock(1).
type seconds struct {
	time.Duration
	given bool
}

// isZero reports whether somebody wrote 0.
func (s *seconds) isZero() bool { return s.given && s.Duration == 0 }

func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if !(n >= 0 && n <= 1e9) { // nan is neither
			return fmt.Errorf("%s seconds: write a number from 0 on, or a duration such as 30s", text)
		}
		*s = seconds{time.Duration(n * float64(time.Second)), true}
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 1e9*time.Second { // so that nothing overflows that is added to a time
		return fmt.Errorf("write seconds, or a duration such as 30s")
	}
	*s = seconds{d, true}
	return nil
}

func (s *seconds) Type() string { return "duration" }

// String returns what help shows as the default; nothing if there is none.
func (s *seconds) String() string {
	if s.Duration == 0 {
		return ""
	}
	return s.Duration.String()
}

// completeNames completes the names of lines: the first argument, and the values of flags.
func completeNames(s *service, c *cobra.Command, flags ...string) {
	names := func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return s.complete(func(ctx context.Context, c *coord.Client) ([]string, error) { return c.Lines(ctx, begun) })
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return names(c, args, begun)
	}
	for _, name := range flags {
		_ = c.RegisterFlagCompletionFunc(name, names)
	}
}

// complete asks the service for completions. There are none if the service does not answer at once.
func (s *service) complete(ask func(ctx context.Context, c *coord.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	found := make(chan []string, 1)
	go func() {
		defer close(found)
		ctx, cancel := context.WithTimeout(context.Background(), completeFor)
		defer cancel()
		_ = s.look(ctx, func(ctx context.Context, c *coord.Client) error {
			all, err := ask(ctx, c)
			found <- all
			return err
		})
	}()
	select {
	case all := <-found:
		return plain(all), cobra.ShellCompDirectiveNoFileComp
	case <-time.After(completeFor):
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// plain returns the completions that may be given to a shell. Anybody may have chosen the names of lines and labels, and
// shells evaluate what they have completed once more when Tab is pressed again. So there may be nothing in it that any shell
// reads. What is left out can still be typed, in quotes.
func plain(all []string) (some []string) {
	for _, c := range all {
		word, description, _ := strings.Cut(c, "\t")
		switch {
		case word == "" || strings.ContainsAny(word[:1], "-=%+@:") || !isPlain(word, "-_./:@%+=,") || strings.HasPrefix(word, "_activeHelp_"):
		case description == "" || !isPlain(description, "-_./:@%+=,? \""):
			some = append(some, word)
		default:
			some = append(some, c)
		}
	}
	return some
}

// isPlain reports whether a text has only letters, digits and some other characters.
func isPlain(text, others string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !strings.ContainsRune(others, r)
	})
}

// completeFor is how long Tab may take at most.
const completeFor = 200 * time.Millisecond

// number is written in decimal digits, whatever it begins with: dates and hours begin with 0.
type number int64

func (n *number) Set(text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("write a whole number")
	}
	*n = number(v)
	return nil
}

func (*number) Type() string     { return "number" }
func (n *number) String() string { return strconv.FormatInt(int64(*n), 10) }
