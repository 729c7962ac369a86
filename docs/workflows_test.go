package docs

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nobody sees a workflow fail before it runs, so what it calls is looked up here.
func TestWorkflowsCallTargetsThatThereAre(t *testing.T) {
	targets := make(map[string]bool)
	for _, found := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, "../Makefile"), -1) {
		targets[found[1]] = true
	}
	workflows, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	calls := 0
	for _, path := range workflows {
		for _, found := range regexp.MustCompile(`(?m)\bmake ([a-z-]+)$|\bmake ([a-z-]+) [A-Z]`).FindAllStringSubmatch(read(t, path), -1) {
			calls++
			target := found[1] + found[2]
			assert.True(t, targets[target], "%s calls make %s", path, target)
		}
	}
	assert.GreaterOrEqual(t, calls, 4, "have the workflows moved?")
}

// A release is the same bytes for everybody only with the same Go, so the workflow may not take whichever is the newest.
func TestAReleaseIsBuiltWithOneGo(t *testing.T) {
	assert.Regexp(t, `(?m)^toolchain go1\.\d+\.\d+$`, read(t, "../tools/release/go.mod"))
	assert.Contains(t, read(t, "../.github/workflows/release.yml"), "go-version-file: tools/release/go.mod")
}
