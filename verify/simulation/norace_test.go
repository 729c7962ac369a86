//go:build !race

package simulation

const (
	scattered = false
	usualRuns = 150
)
