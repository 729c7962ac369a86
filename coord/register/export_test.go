package register

import (
	"strings"
	"time"
)

// SetMachine has a driver run on another machine.
func SetMachine(d *Driver, name byte, up func() time.Duration) {
	d.uptime = func() (machine, time.Duration, bool) { return machine{name}, up(), true }
}

// SetWallClock has the owner of a session say that it is later than it is, if s is a renewal.
func SetWallClock(s Swap, ahead time.Duration) (Swap, bool) {
	h, ok := parseHeartbeat(s.Value)
	if !ok || !strings.HasPrefix(s.Key, sessionKey) {
		return s, false
	}
	h.at = h.at.Add(ahead)
	s.Value = h.encode()
	return s, true
}
