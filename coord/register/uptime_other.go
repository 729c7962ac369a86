//go:build !linux

package register

import "time"

func uptime() (m machine, up time.Duration, ok bool) { return m, 0, false }
