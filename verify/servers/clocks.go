package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Clocks gives each server a wall clock of its own, for [Member.SetClock]. Clocks that only go on, by which servers time what they
// wait for, stay as they are. It is for Redis, PostgreSQL and MariaDB, which ask the C library for the time, and it slows down what asks
// often.
func Clocks() Option { return func(c *config) { c.clocks = true } }

// SetClock sets the server's clock to that much more than the machine's, at once and for good.
func (m *Member) SetClock(ahead time.Duration) error {
	fresh := m.clockFile() + ".new"
	if err := os.WriteFile(fresh, fmt.Appendf(nil, "%+f\n", ahead.Seconds()), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, m.clockFile())
}

func (m *Member) clockFile() string { return filepath.Join(m.dir, "clock") }

// ownClock returns the variables that make a server look at its own clock.
func (m *Member) ownClock() ([]string, error) {
	library, err := Find("faketime/libfaketimeMT.so.1")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(m.clockFile()); err != nil {
		if err := m.SetClock(0); err != nil {
			return nil, err
		}
	}
	return []string{
		// Redis' own malloc asks for the time while the library is not ready yet, so malloc comes from the C library.
		"LD_PRELOAD=" + library + " libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + m.clockFile(),
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
	}, nil
}
