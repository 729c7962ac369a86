package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
)

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{}
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md", "../CODE_OF_CONDUCT.md", "../SECURITY.md", "../.github/PULL_REQUEST_TEMPLATE.md") {
		for _, l := range links.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			to, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			file := page
			if to != "" {
				file = filepath.Join(filepath.Dir(page), to)
			}
			if dir := filepath.Dir(file); file != page && (dir == "." || dir == "../docs") {
				linked[filepath.Base(file)] = true
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if anchor != "" && !anchors(read(t, file))[anchor] {
				t.Errorf("%s: %s has no heading %s", page, file, anchor)
			}
		}
	}
	for _, page := range pages {
		if !linked[page] {
			t.Errorf("no page leads to %s", page)
		}
	}
}

// anchors are the headings of a page as links name them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, h := range headings.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		name := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
