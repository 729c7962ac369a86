package redis

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A wall clock may be set while a client waits. time.Time and time.Since go by the monotonic clock; a number of seconds since
// 1970 cannot, and Round and Truncate drop that clock.
func TestNothingIsMeasuredByTheClientsWallClock(t *testing.T) {
	wall := regexp.MustCompile(`\.(Unix(Nano|Micro|Milli)?|Round|Truncate)\(`)
	files := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(name)
		for i, line := range strings.Split(string(text), "\n") {
			if found := wall.FindString(line); found != "" {
				t.Errorf("%s:%d: %s", name, i+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || files < 30 {
		t.Errorf("%d files, %v", files, err)
	}
}
