//go:build race

package simulation

// scattered says that the runtime starts goroutines in random order.
const scattered = true
