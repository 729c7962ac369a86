//go:build race

package simulation

// scattered says that the runtime starts goroutines in random order. It is slow, too, and all runs without it as well.
const (
	scattered = true
	usualRuns = 30
)
