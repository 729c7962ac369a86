// Package chance is the source of what is left to chance. The simulation replaces it, and leaves nothing to chance.
package chance

import "math/rand/v2"

// Below returns a number from 0 to n-1. The simulation puts another function here, before anything runs.
var Below = rand.Int64N
