// Package edges goes to the limits: the largest data, the oddest session timeouts, an operator who removes everything, a
// client that is closed while a crowd waits.
package edges
