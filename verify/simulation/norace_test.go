//go:build !race

package simulation

const scattered = false
