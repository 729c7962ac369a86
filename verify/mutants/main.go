package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	log.SetFlags(0)
	sample := flag.Int("sample", 30, "how many mutants of each target")
	seed := flag.Uint64("seed", 1, "decides which")
	only := flag.String("only", "", "all mutants, and only those, whose description contains this")
	atOnce := flag.Int("p", 4, "how many mutants are tried at the same time: tests mostly wait")
	verbose := flag.Bool("v", false, "print those that are noticed, too, and by what")
	flag.Parse()
	root, err := filepath.Abs(".")
	if err != nil {
		log.Fatal(err)
	}
	names := flag.Args()
	if len(names) == 0 {
		names = usual
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	enough := true
	for _, t := range targets {
		if !slices.Contains(names, t.name) {
			continue
		}
		all, err := t.mutants(root)
		if err != nil {
			log.Fatal(err)
		}
		n := *sample
		if *only != "" {
			all, n = slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.String(), *only) }), len(all)
		}
		random := rand.New(rand.NewPCG(*seed, 0))
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		s, err := t.try(ctx, all, n, *atOnce, *verbose, func(ctx context.Context, m mutant) (string, error) {
			return noticed(ctx, root, t, m)
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s)
		enough = enough && s.percent() >= t.wanted
	}
	if !enough {
		os.Exit(1)
	}
}

// mutants returns all mutants of a target.
func (t target) mutants(root string) ([]mutant, error) {
	folders, err := t.all(root)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, folder := range folders {
		found, err := mutants(root, filepath.Join(t.module, folder))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// A score is what became of a target's mutants.
type score struct {
	target
	noticed, unnoticed, explained int

	passed bool // without a mutant
}

func (s score) percent() int { return 100 * s.noticed / max(1, s.noticed+s.unnoticed) }

func (s score) String() string {
	return fmt.Sprintf("%s: noticed are %d of %d mutants, %d %% (%d %% wanted); %d more are explained",
		s.name, s.noticed, s.noticed+s.unnoticed, s.percent(), s.wanted, s.explained)
}

// try runs the tests with mutants, until n have compiled, some at the same time.
func (t target) try(ctx context.Context, all []mutant, n, atOnce int, verbose bool,
	noticed func(context.Context, mutant) (by string, err error),
) (score, error) {
	s := score{target: t}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	tried := 0
	start := func(m mutant) {
		tried++
		go func() {
			by, err := noticed(ctx, m)
			results <- result{m, by, err}
		}()
	}
	start(mutant{}) // without one, they have to pass
	for {
		for len(all) > 0 && tried < atOnce && s.begun(tried) < n {
			m := all[0]
			all = all[1:]
			if explained[m.String()] != "" {
				s.explained++
				continue
			}
			start(m)
		}
		if tried == 0 {
			return s, nil
		}
		r := <-results
		tried--
		if err := s.count(r, verbose); err != nil {
			cancel()
			for range tried {
				<-results
			}
			return s, err
		}
	}
}

// begun is how many mutants there are when some are tried at the moment: one of those is none until the tests have passed without.
func (s *score) begun(tried int) int {
	if !s.passed {
		tried--
	}
	return tried + s.noticed + s.unnoticed + s.explained
}

// result is what came of a mutant.
type result struct {
	mutant
	by  string // the test that noticed it
	err error
}

func (s *score) count(r result, verbose bool) error {
	switch without := r.file == ""; {
	case without && r.err != nil:
		return fmt.Errorf("%s, without a mutant: %w", s.name, r.err)
	case without && r.by != "":
		return fmt.Errorf("%s, without a mutant: %s fails", s.name, r.by)
	case without:
		s.passed = true
	case errors.Is(r.err, errNone):
	case r.err != nil:
		return r.err
	case r.by == "":
		s.unnoticed++
		fmt.Printf("NOT noticed, %s:%d: %v\n", r.file, r.line, r.mutant)
	default:
		s.noticed++
		if verbose {
			fmt.Printf("noticed by %s, %s:%d: %v\n", r.by, r.file, r.line, r.mutant)
		}
	}
	return nil
}

//go:embed explained.txt
var explanations string

// explained are mutants that do no harm, and why.
var explained = explain(explanations)

// explain reads lines in pairs: a mutant as it is printed, and the reason.
func explain(text string) map[string]string {
	all := make(map[string]string)
	var last string
	for line := range strings.Lines(text) {
		switch reason, indented := strings.CutPrefix(line, "\t"); {
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		case indented:
			all[last] += strings.TrimSpace(reason)
		default:
			last = strings.TrimSpace(line)
			all[last] = ""
		}
	}
	return all
}
