package prom_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/prom"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

func program(t *testing.T, name string) string {
	t.Helper()
	path, err := servers.Find("prometheus/" + name)
	if err != nil && os.Getenv("TURNWISE_REQUIRE_SERVERS") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return path
}

// The alerts are quiet while all is well, and each tells of its trouble: see the file with the scenarios.
func TestAlerts(t *testing.T) {
	promtool := program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "prometheus"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	rules, err := os.ReadFile("prometheus/alerts.yml")
	require.NoError(t, err)
	tests, err := os.ReadFile("prometheus/alerts_test.yml")
	require.NoError(t, err)
	for line := range strings.Lines(string(rules)) {
		if _, name, is := strings.Cut(line, "- alert: "); is {
			require.GreaterOrEqual(t, strings.Count(string(tests), "alertname: "+strings.TrimSpace(name)), 2, "%s is tested quiet and loud", name)
		}
	}
}

// A real Prometheus reads a program that locks, loses and leads; every panel of the dashboard then shows something, and every
// alert can be computed.
func TestTheDashboardShowsWhatARealPrometheusHasRead(t *testing.T) {
	path := program(t, "prometheus")
	registry := prometheus.NewRegistry()
	metrics := prom.New(prom.Lines(func(line string) string { return line }))
	registry.MustRegister(metrics)
	page := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer page.Close()
	works(t, metrics)

	ask := startPrometheus(t, path, page.Listener.Addr().String())
	text, err := os.ReadFile("prometheus/dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			expr := strings.ReplaceAll(q.Expr, "$instance", ".*")
			var said struct {
				Status, Error string
				Data          struct{ Result []any }
			}
			require.Eventually(t, func() bool { // a rate needs two readings
				ask("query?query="+url.QueryEscape(expr), &said)
				return said.Status == "success" && len(said.Data.Result) > 0
			}, time.Minute, 200*time.Millisecond, "%s: %s: %s shows nothing", p.Title, expr, said.Error)
		}
	}
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	require.Eventually(t, func() bool {
		ask("rules", &rules)
		if len(rules.Data.Groups) == 0 {
			return false
		}
		for _, r := range rules.Data.Groups[0].Rules {
			if r.Health != "ok" {
				return false
			}
		}
		return true
	}, time.Minute, 200*time.Millisecond, "%+v", &rules)
}

// works does a little of everything that is measured, and goes on with it.
func works(t *testing.T, metrics *prom.Metrics) {
	service := mem.New(mem.WithTTL(time.Second))
	t.Cleanup(service.Close)
	c := service.Client(coord.WithObserver(metrics.Observer()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	term, err := election.New(c, "seat").Campaign(ctx, nil)
	require.NoError(t, err)
	go func() {
		defer close(ended)
		defer term.Release()
		for ctx.Err() == nil {
			h, err := mutex.New(c, "orders").Lock(ctx)
			if err != nil {
				return
			}
			_, _ = mutex.New(c, "orders", mutex.MaxWait(time.Millisecond)).Lock(ctx)
			if time.Now().UnixMilli()%3 == 0 && c.Break(ctx, h.Node()) == nil {
				<-h.Context().Done() // a loss is one that is heard of before the release
			}
			_ = h.Release()
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

// startPrometheus has it read a page each second. What it returns asks its API.
func startPrometheus(t *testing.T, path, target string) (ask func(what string, answer any)) {
	dir := t.TempDir()
	alerts, err := filepath.Abs("prometheus/alerts.yml")
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: program\n  static_configs: [{targets: [%q]}]\n",
		alerts, target), 0o644))
	for range 5 { // until nobody else has taken the port meanwhile
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := free.Addr().String()
		free.Close()
		ask = func(what string, answer any) {
			res, err := http.Get("http://" + addr + "/api/v1/" + what)
			if err != nil {
				return
			}
			defer res.Body.Close()
			_ = json.NewDecoder(res.Body).Decode(answer)
		}
		if runs(t, exec.Command(path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, addr), "--web.listen-address="+addr, "--log.level=warn"), ask) {
			return ask
		}
	}
	t.Fatal("Prometheus does not start")
	return nil
}

// runs reports whether Prometheus has come to answer. It ends with the test.
func runs(t *testing.T, cmd *exec.Cmd, ask func(what string, answer any)) bool {
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for limit := time.After(time.Minute); ; {
		var said struct{ Status string }
		if ask("status/buildinfo", &said); said.Status == "success" {
			return true
		}
		select {
		case <-ended:
			return false
		case <-limit:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}
