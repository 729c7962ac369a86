package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) {
	as, err := child(context.Background())
	switch {
	case err != nil:
		os.Exit(1)
	case !as:
		os.Exit(m.Run())
	}
}

// All works run in tiny sizes with the contestants written in Go, and with the others where their languages are installed.
// Times are not checked.
func TestWorksRun(t *testing.T) {
	servers.Need(t, "zookeeper")
	servers.Need(t, "etcd")
	sessions = 8 * time.Second
	b := &bench{ctx: t.Context(), log: io.Discard, rounds: 1}
	if testing.Verbose() {
		b.log = os.Stderr
	}
	defer clean()
	defer b.close()
	r, err := openReport(t.TempDir(), works(small))
	if err != nil {
		t.Fatal(err)
	}
	missing := map[Service]bool{}
	for s, folder := range map[Service]string{Redis: "redis", RedisThree: "redis", Postgres: "postgres", MariaDB: "mariadb", Memcached: "memcached", NATS: "nats-server"} {
		if _, err := servers.Find(folder); err != nil && os.Getenv("TURNWISE_REQUIRE_SERVERS") == "" {
			missing[s] = true
		}
	}
	lacks := map[string]bool{"Curator": lacking("curator", "java"), "Kazoo": lacking("kazoo", "python3")}
	for _, w := range r.works {
		since := time.Now()
		results, err := b.work(w)
		if err != nil {
			t.Fatal(w.Name, err)
		}
		for _, result := range results {
			if result.Error != "" && !missing[result.Service] && !lacks[result.Contestant] {
				t.Errorf("%s, %s: %s/%s: %s", w.Name, result.Case, result.Service, result.Contestant, result.Error)
			}
		}
		if err := r.add(w, results, b.versions()); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v", w.Name, time.Since(since).Round(time.Millisecond))
	}
	checkRequests(t, r.book)

	text, err := os.ReadFile(filepath.Join(r.dir, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range r.works {
		if !strings.Contains(string(text), "## "+w.Title) {
			t.Errorf("the report lacks %q", w.Title)
		}
	}
}

func lacking(folder, program string) bool {
	_, missing := servers.Find(folder)
	_, err := exec.LookPath(program)
	return missing != nil || err != nil
}

// checkRequests asserts what the budget says, with half a request to spare: what the budget forbids would cost one more a
// turn. A renewal or two may fall into a window, the server may report its count a few turns early or late, and on a busy
// machine a node may have gone by the time that it is to be watched.
func checkRequests(t *testing.T, book *Book) {
	t.Helper()
	for _, want := range []struct {
		work, prefix string
		service      Service
		most         float64
	}{
		{"uncontended", "1 client", ZooKeeper, 3.5}, // create, its list, delete
		{"uncontended", "1 client", Etcd, 2.5},      // two transactions
		{"handoff", "8 contenders", ZooKeeper, 5.5}, // create, its list, a watch, a look, delete
		{"semaphore", "2 permits", ZooKeeper, 5.5},  // and a look
	} {
		r := book.find(want.work, want.prefix, want.service, "turnwise")
		if r == nil {
			t.Errorf("%s on %s was not measured", want.work, want.service)
			continue
		}
		if got := r.Rounds[0].Requests; got > want.most {
			t.Errorf("%s on %s takes %.2f requests a turn, at most %.2f are allowed", want.work, want.service, got, want.most)
		}
	}
	for _, s := range stores {
		if r := book.find("stores", "20 waiters", s, "turnwise"); r != nil && r.Rounds[0].Wakes > 1.1 {
			t.Errorf("a hand-off on %s wakes %.2f waiters", s, r.Rounds[0].Wakes)
		}
	}
	for _, s := range clusters {
		r := book.find("drain", "20 waiters", s, "turnwise")
		if r == nil || r.Counted == nil {
			t.Errorf("drain on %s was not measured and counted", s)
			continue
		}
		if got := r.Rounds[0].Wakes; got > 1.1 {
			t.Errorf("a hand-off on %s wakes %.2f waiters", s, got)
		}
		if got := r.Rounds[0].Requests; got > 5 {
			t.Errorf("a hand-off on %s takes %.2f requests", s, got)
		}
		if got := r.Counted.Bytes; got <= 0 || got > 4000 {
			t.Errorf("a hand-off on %s takes %.0f bytes", s, got)
		}
	}
}
