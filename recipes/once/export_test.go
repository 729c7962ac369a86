package once

import "time"

// WithClock has Run see another wall clock.
func WithClock(now func() time.Time) Option { return func(j *Job) { j.now = now } }
