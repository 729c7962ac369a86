// Package chance is where what is left to chance comes from, so that the simulation can leave nothing to it.
package chance

import "math/rand/v2"

// Below returns a number from 0 to n-1. The simulation puts another function here, before anything runs.
var Below = rand.Int64N
