//go:build linux || darwin

package file

import (
	"strings"
	"testing"
)

// Processes of different versions share a directory, so these stay.
func TestNamesOfFiles(t *testing.T) {
	for key, name := range map[string]string{
		"line/azAZ09-_.": "line,az%41%5a09-_.",
		".hidden/~":      "%2ehidden,%7e",
		"":               "",
		"a:b/{`":         "a%3ab,%7b%60",
	} {
		if got := nameOf(key); got != name {
			t.Errorf("the file of %q is called %q", key, got)
		}
	}
	longest := strings.Repeat("a", longName)
	if got := nameOf(longest); got != longest {
		t.Errorf("a name of %d bytes becomes %q", longName, got)
	}
	if got := nameOf(longest + "a"); len(got) != longName || !strings.Contains(got, "~") {
		t.Errorf("a longer one becomes %q", got)
	}
}
