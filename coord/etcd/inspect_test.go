package etcd

import (
	"fmt"
	"testing"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

// There are more lines than one read returns, and some are longer than that.
func TestLinesArePagedAndLongOnesSkipped(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	l := connectLink(t, cluster.Addrs()...)
	for _, names := range []Names{Isolated, Stock} {
		s := open(t, l, WithNames(names), WithRoot(fmt.Sprint("paged/", names)))
		add := func(line string) {
			join(t, s, entry(line, "lock"))
		}
		for range 2 * page {
			add("b")
		}
		for i := range page + 10 {
			add(fmt.Sprintf("c/%04d", i))
		}
		add("a")
		add("b/c")
		before := l.counted()
		lines, err := s.d.Lines(within(t, 20*time.Second), "")
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) != page+13 || lines[0] != "a" || lines[1] != "b" || lines[2] != "b/c" || lines[3] != "c/0000" {
			t.Errorf("%d lines: %q …", len(lines), lines[:min(4, len(lines))])
		}
		if n := l.counted().Sub(before).Reads; names == Isolated && n > 4 {
			t.Errorf("it took %d reads", n)
		}
		if some, err := s.d.Lines(within(t, 20*time.Second), "c/000"); err != nil || len(some) != 10 {
			t.Errorf("%d lines with a prefix, %v", len(some), err)
		}
		if err := s.Close(within(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
	}
}
