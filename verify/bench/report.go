package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

// report is docs/benchmarks.md and what belongs to it. It is written again after each work.
type report struct {
	dir   string
	works []*Work
	book  *Book
}

func openReport(dir string, all []*Work) (*report, error) {
	if err := os.MkdirAll(filepath.Join(dir, "benchmarks"), 0o755); err != nil {
		return nil, err
	}
	book, err := readBook(filepath.Join(dir, "benchmarks", "results.json"))
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		book.Works[w.Name] = slices.DeleteFunc(book.Works[w.Name], func(r Result) bool { return !w.on(r.Service) })
	}
	return &report{dir, all, book}, nil
}

func (r *report) add(w *Work, results []Result, versions []string) error {
	r.book.Works[w.Name] = renew(r.book.Works[w.Name], results)
	slices.SortStableFunc(r.book.Works[w.Name], func(a, b Result) int { return cmp.Compare(w.place(a.Case), w.place(b.Case)) })
	had := r.book.Machine.Versions
	r.book.Machine, r.book.Measured[w.Name] = machine()
	r.book.Machine.Versions = merge(had, versions)
	if err := r.book.write(filepath.Join(r.dir, "benchmarks", "results.json")); err != nil {
		return err
	}
	return r.write()
}

// renew replaces results by fresh ones of the same case and contestant; with -only, the others stay as they are.
func renew(old, fresh []Result) []Result {
	all := slices.Clone(old)
	for _, f := range fresh {
		same := func(r Result) bool { return r.Case == f.Case && r.Service == f.Service && r.Contestant == f.Contestant }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i] = f
		} else {
			all = append(all, f)
		}
	}
	return all
}

func (r *report) write() error {
	var doc strings.Builder
	m := r.book.Machine
	fmt.Fprintf(&doc, `# Benchmarks

Written by `+"`make bench`"+`. Everybody runs on the same server on the same machine, in turn (A B A B …), for several
rounds; each figure is the median of the rounds, with the least and the most beside it. The machine does other work too,
so only the ratios within one run count; figures of two runs should not be compared. Server data are in memory, except
in the last work.

| | |
|---|---|
| system | %s |
| Go | %s |
`, m.System, m.Go)
	for _, v := range m.Versions {
		if name, version, ok := strings.Cut(v, " "); ok {
			fmt.Fprintf(&doc, "| %s | %s |\n", name, version)
		}
	}
	doc.WriteString("\n`-work <name>` measures one work again and leaves the others as they are.\n")
	if lines := r.verdicts(); len(lines) > 0 {
		doc.WriteString("\n## Where it must get\n\n| work | service | beside | wanted | measured | |\n|---|---|---|---|---|---|\n")
		doc.WriteString(strings.Join(lines, "\n") + "\n")
	}
	for _, w := range r.works {
		results := r.book.Works[w.Name]
		if len(results) == 0 {
			continue
		}
		fmt.Fprintf(&doc, "\n## %s\n\n`-work %s`. %s Measured %s.\n", w.Title, w.Name, w.About, r.book.Measured[w.Name])
		if svg := plot(w, results); svg != "" {
			name := filepath.Join("benchmarks", w.Name+".svg")
			if err := os.WriteFile(filepath.Join(r.dir, name), []byte(svg), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(&doc, "\n![%s](%s)\n", w.Title, name)
		}
		doc.WriteString("\n" + tabulate(w, results))
	}
	return os.WriteFile(filepath.Join(r.dir, "benchmarks.md"), []byte(doc.String()), 0o644)
}

func (r *report) verdicts() []string {
	var lines []string
	var reasons []string
	for _, t := range targets {
		line, reached, ok := t.verdict(r.book)
		if ok {
			lines = append(lines, line)
		}
		if ok && !reached && t.why != "" && !slices.Contains(reasons, t.why) {
			reasons = append(reasons, t.why)
		}
	}
	lines = append(lines, failoverVerdicts(r.book)...)
	for _, why := range reasons {
		lines = append(lines, "\n"+why)
	}
	return lines
}

// tabulate makes the table of a work. It leaves out columns for which nobody has a figure.
func tabulate(w *Work, results []Result) string {
	if len(results) > 0 && slices.ContainsFunc(results, func(r Result) bool { return len(r.Extra) > 0 }) {
		return extraTable(results)
	}
	columns := filled(results)
	var doc strings.Builder
	fmt.Fprintf(&doc, "| | service | who | time per %s | least … most | a second |", w.Unit)
	for _, c := range columns {
		fmt.Fprintf(&doc, " %s |", c.title)
	}
	doc.WriteString("\n|---|---|---|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	last := ""
	for _, r := range results {
		name := r.Case
		if name == last {
			name = ""
		}
		last = r.Case
		who := r.Contestant
		if r.Ours {
			who = "**" + who + "**"
		}
		if r.Error != "" && len(r.Rounds) == 0 {
			fmt.Fprintf(&doc, "| %s | %s | %s | failed: %s |\n", name, r.Service, who, oneLine(r.Error))
			continue
		}
		low, mid, high := r.spread()
		fmt.Fprintf(&doc, "| %s | %s | %s | %s | %s … %s | %.0f |", name, r.Service, who, shown(mid), shown(low), shown(high), float64(time.Second)/float64(mid))
		for _, c := range columns {
			fmt.Fprintf(&doc, " %s |", c.of(r))
		}
		doc.WriteString("\n")
		if r.Error != "" {
			fmt.Fprintf(&doc, "| | | | failed after %d rounds: %s |\n", len(r.Rounds), oneLine(r.Error))
		}
	}
	return doc.String()
}

// column is one that a table has only if it says something of a result.
type column struct {
	title string
	of    func(Result) string
}

// filled returns the columns in which any of the results has something.
func filled(results []Result) (columns []column) {
	figure := func(of func(Sample) float64) func(Result) string {
		return func(r Result) string {
			if v := r.middle(of); v > 0.005 {
				return rounded(v)
			}
			return ""
		}
	}
	bytes := func(r Result) string {
		if r.Counted == nil || r.Counted.Bytes == 0 {
			return ""
		}
		return rounded(r.Counted.Bytes)
	}
	shared := func(of func(Sample) string) func(Result) string {
		return func(r Result) string {
			if len(r.Rounds) == 0 || r.Rounds[0].Longest == 0 {
				return ""
			}
			return of(r.Rounds[0])
		}
	}
	for _, c := range []column{
		{"requests", figure(func(s Sample) float64 { return s.Requests })},
		{"bytes", bytes},
		{"wake-ups", figure(func(s Sample) float64 { return s.Wakes })},
		{"to another", figure(func(s Sample) float64 { return s.Passed * float64(time.Second) / float64(s.Per) })},
		{"longest wait", shared(func(s Sample) string { return shown(s.Longest) })},
		{"shares", shared(func(s Sample) string { return fmt.Sprintf("%.2f … %.2f", s.Least, s.Most) })},
	} {
		if slices.ContainsFunc(results, func(r Result) bool { return c.of(r) != "" }) {
			columns = append(columns, c)
		}
	}
	return columns
}

func extraTable(results []Result) string {
	var doc strings.Builder
	var titles []string
	for _, r := range results {
		for _, c := range r.Extra {
			if title := strings.TrimSpace(c.Name + " " + c.Unit); !slices.Contains(titles, title) {
				titles = append(titles, title)
			}
		}
	}
	fmt.Fprintf(&doc, "| | service | who | %s |\n|---|---|---|%s\n", strings.Join(titles, " | "), strings.Repeat("---|", len(titles)))
	for _, r := range results {
		fmt.Fprintf(&doc, "| %s | %s | %s |", r.Case, r.Service, r.Contestant)
		if r.Error != "" {
			fmt.Fprintf(&doc, " failed: %s |\n", oneLine(r.Error))
			continue
		}
		for _, c := range r.Extra {
			fmt.Fprintf(&doc, " %s |", rounded(c.Value))
		}
		doc.WriteString("\n")
	}
	return doc.String()
}

func oneLine(s string) string {
	s = strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "/")
	return s[:min(len(s), 160)]
}

func rounded(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// shown formats a duration with three digits.
func shown(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	digits := time.Duration(math.Pow(10, math.Max(0, math.Floor(math.Log10(float64(d)))-2)))
	return d.Round(digits).String()
}

// machine returns with what something is measured, and when and where.
func machine() (m Machine, measured string) {
	m.Go = runtime.Version()
	if out, err := exec.Command("uname", "-srm").Output(); err == nil {
		m.System = strings.TrimSpace(string(out))
	}
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	measured = fmt.Sprintf("%s on %s, %d cores", time.Now().UTC().Format("2006-01-02"), cpu, runtime.NumCPU())
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err == nil {
			measured += fmt.Sprintf(", %d GiB", (kib+1<<19)>>20)
		}
	}
	return m, measured
}

// versions returns the versions of what took part in this run: the servers that were started, and the libraries built in.
func (b *bench) versions() []string {
	var all []string
	for _, s := range b.stages {
		s.mu.Lock()
		for _, one := range s.ready {
			all = append(all, one.name)
		}
		s.mu.Unlock()
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			for _, wanted := range []string{"go-zookeeper/zk", "etcd/client/v3", "redsync/v4", "redis/rueidis"} {
				if strings.HasSuffix(d.Path, wanted) {
					all = append(all, d.Path+" "+d.Version)
				}
			}
		}
	}
	java, err := servers.Java()
	if out, failed := exec.Command(java, "-version").CombinedOutput(); err == nil && failed == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		all = append(all, "Java "+first)
	}
	if out, err := exec.Command("python3", "--version").Output(); err == nil {
		all = append(all, strings.TrimSpace(string(out)))
	}
	return all
}

// merge takes the newer version for each name.
func merge(old, fresh []string) []string {
	byName := map[string]string{}
	for _, v := range slices.Concat(old, fresh) {
		name, _, _ := strings.Cut(v, " ")
		byName[name] = v
	}
	var all []string
	for _, v := range byName {
		all = append(all, v)
	}
	slices.Sort(all)
	return all
}
