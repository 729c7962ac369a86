package migrating

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/recipes/multi"
	"github.com/turnwise/turnwise/verify/servers"
)

// Curator's InterProcessMultiLock takes its locks in the order in which they are given. Of two that give them in two orders neither has
// both when its time is up; without a time they would wait for ever. Ours wait in the order of the names, whatever they are given.
func TestCuratorsMultiLocksWaitForEachOtherAndOursDoNot(t *testing.T) {
	folder := servers.Need(t, "curator")
	servers.NeedProgram(t, "javac") // without it java runs no source
	cluster := servers.ZooKeeper(t, servers.Shared())
	ctx := within(t, 2*time.Minute)
	cmd := exec.CommandContext(ctx, servers.NeedJava(t), "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", filepath.Join(folder, "*"), "testdata/Multi.java", cluster.Addrs()[0], "/multi-theirs", "4")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	// Their times end at nearly the same moment, and whoever gives up first may let the other one in.
	if got := strings.TrimSpace(string(out)); got == "true true" {
		t.Errorf("Curator's: %s; each had to wait for the other", got)
	} else {
		t.Logf("Curator's have both locks: %s", got)
	}

	client := connected(t)
	first := client(zk.Connect(ctx, cluster.Addrs(), zk.WithRoot("/multi-ours")))
	second := client(zk.Connect(ctx, cluster.Addrs(), zk.WithRoot("/multi-ours")))
	for range 50 {
		done := make(chan error, 2)
		for _, m := range []*multi.Multi{multi.New(first, multi.Mutex("a"), multi.Mutex("b")), multi.New(second, multi.Mutex("b"), multi.Mutex("a"))} {
			go func() { done <- m.Do(ctx, func(context.Context, *multi.Hold) error { return nil }) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
}
