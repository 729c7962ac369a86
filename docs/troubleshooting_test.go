package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var exported = regexp.MustCompile(`(?m)^\s*(?:var )?(Err\w+)\s*= (?:errors\.New\("([^"]*)"\)|driver\.(\w+))`)

func TestEveryErrorHasItsRow(t *testing.T) {
	page, rows := read(t, "troubleshooting.md"), 0
	texts := map[string]string{}
	for _, e := range exported.FindAllStringSubmatch(read(t, "../coord/driver/driver.go"), -1) {
		texts[e[1]] = e[2]
	}
	files, err := filepath.Glob("../recipes/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../coord/errors.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, e := range exported.FindAllStringSubmatch(read(t, file), -1) {
			text := e[2]
			if e[3] != "" {
				text = texts[e[3]]
			}
			rows++
			if row := "\n| `" + text + "` | `" + filepath.Base(filepath.Dir(file)) + "." + e[1] + "` |"; !strings.Contains(page, row) {
				t.Errorf("troubleshooting.md lacks%s", row)
			}
		}
	}
	if all := strings.Count(page, "\n| `") - strings.Count(page, "` | `"); rows < 20 || all < 20 {
		t.Errorf("%d errors were found, and %d other rows", rows, all)
	}
	for _, c := range regexp.MustCompile(`(?m)^\s+code\w+ += (\d+)`).FindAllStringSubmatch(read(t, "../cmd/turnwise/internal/cli/codes.go"), -1) {
		if !regexp.MustCompile(`(?m)^\| ([\d, ]+, )?` + c[1] + `(, [\d, ]+| \+ n)? \|`).MatchString(page) {
			t.Errorf("troubleshooting.md has no row for exit code %s", c[1])
		}
	}
}

// Whoever looks for a text finds it only if it is the one that is returned.
func TestTheTextsInTroubleshootingAreThoseOfTheCode(t *testing.T) {
	var said strings.Builder
	for _, dir := range []string{"../backend", "../cmd", "../coord", "../observe", "../recipes"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				literals(t, path, &said)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(read(t, "troubleshooting.md"), -1) {
		for part := range strings.SplitSeq(row[1], "…") {
			if part = strings.TrimSpace(part); !strings.Contains(said.String(), part) {
				t.Errorf("nothing says %q", part)
			}
		}
	}
}

// literals writes down the strings of a file, those that are added up as one.
func literals(t *testing.T, path string, to *strings.Builder) {
	t.Helper()
	source := []byte(read(t, path))
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile(path, -1, len(source)), source, nil, 0)
	added := false
	for {
		switch _, tok, lit := s.Scan(); tok {
		case token.EOF:
			return
		case token.STRING:
			if !added {
				to.WriteByte('\n')
			}
			text, err := strconv.Unquote(lit)
			if err != nil {
				t.Fatal(err)
			}
			to.WriteString(text)
		default:
			added = tok == token.ADD
		}
	}
}
