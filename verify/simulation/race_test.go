//go:build race

package simulation

// scattered says that the runtime starts goroutines in random order, as it does under the race detector. That is slow, too,
// so there are fewer runs: all of them are made without it as well.
const (
	scattered = true
	usualRuns = 30
)
