package main

import "time"

// mono is never called: no server starts on Windows.
func mono() time.Duration { panic("chaos: there is no clock for it on Windows") }
