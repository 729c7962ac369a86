package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/verify/planted"
)

func TestEveryPlantedBugIsListed(t *testing.T) {
	list, count := read(t, "planted-bugs.md"), 0
	listed := func(bug, of string) {
		t.Helper()
		if count++; !strings.Contains(list, "\n| "+bug+" |") {
			t.Errorf("planted-bugs.md does not list %q of %s", bug, of)
		}
	}
	for _, b := range planted.All() {
		listed(b.Name, "verify/planted")
	}
	for file, pattern := range map[string]string{
		"../verify/model/model_test.go":           `\{"(.+)", families\(.*\}, ".+"\},`,
		"../verify/model/registers/model_test.go": `\{"(.+)", Config\{.*\}, ".*"\},`,
		"../coord/drivertest/modeldriver_test.go": `flaw = "(.+)"`,
	} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1)
		if len(found) < 5 {
			t.Errorf("%s has %d planted bugs: have they moved?", file, len(found))
		}
		for _, f := range found {
			listed(f[1], file)
		}
	}
	for file, says := range map[string]string{"planted-bugs.md": "%d in all", "guarantees.md": "%d safeguards"} {
		if want := fmt.Sprintf(says, count); !strings.Contains(read(t, file), want) {
			t.Errorf("%s does not say %q", file, want)
		}
	}
}

// Each line of the tables in security.md names the tests that show it.
func TestEveryRightHasItsTest(t *testing.T) {
	tests := testsIn(t,
		"../coord/zk", "../coord/etcd", "../coord/register", "../coord/file", "../coord/redis", "../coord/redis/quorum", "../coord/postgres", "../coord/mysql", "../coord/nats", "../backend", "../sharedfile", "../cmd/turnwise", "../cmd/turnwise/internal/run", "../cmd/turnwise/internal/cli", "../cmd/turnwise/internal/serve", "../coord/zk/internal/wire", "../coord/memcached", "../coord/kube", "../coord/driver/driverkit", "../verify/integration/fences",
	)
	lines := 0
	for line := range strings.Lines(read(t, "security.md")) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| right |") || strings.HasPrefix(line, "| service |") || strings.HasPrefix(line, "| who |") {
			continue
		}
		lines++
		named := regexp.MustCompile("`(?:\\w+: )?((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(line, -1)
		scripts := regexp.MustCompile("`(\\w+\\.txtar)`").FindAllStringSubmatch(line, -1)
		for _, s := range scripts {
			read(t, "../cmd/turnwise/testdata/"+s[1])
		}
		if len(named)+len(scripts) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, n := range named {
			if !strings.Contains(tests, "\nfunc "+n[1]+"(") {
				t.Errorf("there is no %s", n[1])
			}
		}
	}
	if lines < 20 {
		t.Errorf("the tables have %d lines", lines)
	}
}

// Each line of the table in migrating.md names the tests that show it, or says that there is none. So the rest of the page does.
func TestWhatMigratingTriedIsTried(t *testing.T) {
	page := read(t, "migrating.md")
	tests := testsIn(t, "../verify/integration/migrating", "../coord/etcd", "../coord/zk", "../peers/clientgo")
	lines := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") || strings.Count(line, "|") != 4 || !strings.Contains(line, " | yes, ") && !strings.Contains(line, " | no: ") {
			continue
		}
		lines++
		if !strings.Contains(line, "`Test") && !strings.Contains(line, ".txtar`") && !strings.HasSuffix(line, "| not tried here |\n") {
			t.Errorf("no test: %s", line)
		}
	}
	if lines < 10 {
		t.Errorf("the table has %d lines", lines)
	}
	for _, n := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(tests, "\nfunc "+n[1]+"(") {
			t.Errorf("there is no %s", n[1])
		}
	}
	for _, s := range regexp.MustCompile("`(\\w+\\.txtar)`").FindAllStringSubmatch(page, -1) {
		read(t, "../cmd/turnwise/testdata/"+s[1])
	}
	// The code in Java, whose order is another there.
	peer := read(t, "../coord/zk/testdata/Peer.java")
	_, java, _ := strings.Cut(page, "```java\n")
	java, _, _ = strings.Cut(java, "```")
	if java == "" {
		t.Error("no code in Java")
	}
	for line := range strings.Lines(java) {
		if !strings.Contains(peer, " "+line) {
			t.Errorf("this is not compiled: %s", line)
		}
	}
}

// testsIn returns the source of the tests of these folders.
func testsIn(t *testing.T, dirs ...string) (source string) {
	t.Helper()
	for _, dir := range dirs {
		files, err := filepath.Glob(dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			source += read(t, f)
		}
	}
	return source
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
