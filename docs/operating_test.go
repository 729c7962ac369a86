package docs

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/observe/healthz"
	"github.com/turnwise/turnwise/observe/slogobs"
)

// seen is what operating.md shows: the test sees to it that it is the same.
func seen(ctx context.Context, servers []string, mux *http.ServeMux) error {
	client, err := zk.Connect(ctx, servers, zk.WithClient(
		coord.WithObserver(slogobs.New(slog.Default(), slogobs.LongWait(10*time.Minute))),
		coord.WithTurnNotes(),
	))
	if err != nil {
		return err
	}
	mux.Handle("/readyz", healthz.Handler(client, "orders"))
	return nil
}

var _ = seen

func TestTheCodeInThePagesIsCompiled(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	source := testsIn(t, ".", "../verify/integration/migrating")
	for _, page := range pages {
		for _, block := range strings.Split(read(t, page), "```go\n")[1:] {
			shown++
			block, _, _ := strings.Cut(block, "```")
			within := "" // a function
			for line := range strings.Lines(block) {
				if line != "\n" {
					line = "\t" + line
				}
				within += line
			}
			if !strings.Contains(source, "\n"+block) && !strings.Contains(source, "\n"+within) {
				t.Errorf("%s: this is not compiled:\n%s", page, block)
			}
		}
	}
	if shown < 50 {
		t.Errorf("only %d blocks were found", shown)
	}
}

// Whoever writes rules of his own by the page gets those that are shipped and tested.
func TestTheAlertsInOperatingAreThoseOfTheRules(t *testing.T) {
	rules := map[string]bool{}
	for _, r := range regexp.MustCompile(`(?m)^    expr: (.+)$`).FindAllStringSubmatch(read(t, "../observe/prom/prometheus/alerts.yml"), -1) {
		rules[r[1]] = true
	}
	_, table, _ := strings.Cut(read(t, "operating.md"), "\n| alert |")
	table, _, _ = strings.Cut(table, "\n\n")
	found := 0
	for _, cell := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(table, -1) {
		for _, e := range regexp.MustCompile("`([^`]* (?:>|==) [^`]*)`").FindAllStringSubmatch(cell[1], -1) {
			found++
			if !rules[e[1]] {
				t.Errorf("no rule in alerts.yml has the expression %s", e[1])
			}
		}
	}
	if found < 6 {
		t.Errorf("%d alerts were found on the page", found)
	}
}

// What an operator is told to look for is what there is.
func TestWhatOperatingNamesIsThere(t *testing.T) {
	for _, name := range []string{"turnwise_up", "turnwise_line_first_seconds", "turnwise_oldest_wait_seconds", "turnwise_oldest_first_seconds", "turnwise_circles", "turnwise_waiters", "turnwise_holders"} {
		if !strings.Contains(read(t, "operating.md"), name) || !strings.Contains(read(t, "serve.md"), "`"+name) {
			t.Errorf("%s is not in both", name)
		}
	}
	measured, err := os.ReadFile("../observe/prom/prom.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"unreachable_seconds", "lost_total", "waiting", "holding"} {
		if !strings.Contains(read(t, "operating.md"), "turnwise_client_"+name) || !strings.Contains(string(measured), "//	"+name) {
			t.Errorf("turnwise_client_%s is not in both", name)
		}
	}
	traced, err := os.ReadFile("../observe/otel/otel.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"acquire mutex", "hold mutex", "turnwise.token"} {
		if !strings.Contains(read(t, "operating.md"), "`"+name+"`") || !strings.Contains(string(traced), name) {
			t.Errorf("%s is not in both", name)
		}
	}
	if !strings.Contains(read(t, "operating.md"), "turnwise.client.hold.lost") || !strings.Contains(string(traced), "//	hold.lost") {
		t.Error("turnwise.client.hold.lost is not in both")
	}
	source, err := os.ReadFile("../observe/slogobs/slogobs.go")
	if err != nil {
		t.Fatal(err)
	}
	if text := "a hold was lost"; !strings.Contains(read(t, "operating.md"), text) || !strings.Contains(string(source), text) {
		t.Errorf("%q is not in both", text)
	}
}
