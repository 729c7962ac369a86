// Bench measures turnwise and its peers side by side, in turn, on the same servers, and writes docs/benchmarks.md.
//
//	go run . -work uncontended,handoff -rounds 3 -only 'etcd/'
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	as, err := child(ctx)
	if !as {
		err = benchmark(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// child does what another process of this program has started it for, if one has.
func child(ctx context.Context) (as bool, err error) {
	if who := os.Getenv(leadVariable); who != "" {
		return true, lead(ctx, who)
	}
	if told := os.Getenv(apartVariable); told != "" {
		return true, sit(ctx, told)
	}
	return false, nil
}

func benchmark(ctx context.Context) error {
	chosen := flag.String("work", "", "the works to measure, with commas between; all unless told: uncontended, handoff, drain, lines, rwlock, semaphore, failover, footprint, idle, waiting, group, disk, stores, together, observed")
	rounds := flag.Int("rounds", 5, "how often everyone has a turn; the medians are reported")
	only := flag.String("only", "", "a regular expression of service/contestant, such as 'etcd/|zookeeper/turnwise'")
	out := flag.String("out", filepath.Join("..", "..", "docs"), "the folder that benchmarks.md and its plots are written to")
	short := flag.Bool("short", false, "tiny sizes, to see that it works")
	flag.Parse()

	b := &bench{ctx: ctx, log: os.Stderr, rounds: max(1, *rounds)}
	defer b.close()
	defer clean()
	if *only != "" {
		pattern, err := regexp.Compile(*only)
		if err != nil {
			return err
		}
		b.only = pattern
	}
	s := full
	if *short {
		s = small
	}
	all := works(s)
	names := strings.FieldsFunc(*chosen, func(r rune) bool { return r == ',' })
	for _, n := range names {
		if !slices.ContainsFunc(all, func(w *Work) bool { return w.Name == n }) {
			return fmt.Errorf("there is no work called %q", n)
		}
	}
	r, err := openReport(*out, all)
	if err != nil {
		return err
	}
	for _, w := range all {
		if len(names) > 0 && !slices.Contains(names, w.Name) {
			continue
		}
		since := time.Now()
		results, err := b.work(w)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s took %v\n", w.Name, time.Since(since).Round(time.Second))
		if err := r.add(w, results, b.versions()); err != nil {
			return err
		}
	}
	return nil
}

// clean removes what was written beside the report.
func clean() {
	for _, made := range []func() (folder, error){scratch, diskScratch} {
		if f, err := made(); err == nil {
			f.remove()
		}
	}
}
