// Package slots kills real processes in the middle of recipes/once, on real services: no slot is run twice if at most once, and
// each is run if at least once.
package slots
