//go:build linux || darwin

package cli

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The reckoning of robfig/cron goes wrong where clocks are set at midnight or by half an hour, see its issues on daylight saving. Whatever
// the hour at which somebody asks, the next slot is the first moment at which the clock of the place shows what the line says.
func TestASlotIsWhatTheClockOfAPlaceShows(t *testing.T) {
	for _, c := range []struct {
		zone, line, from string // in UTC, some days around a change
		want             []string
	}{
		{"Asia/Beirut", "0 3 * * 0", "2026-03-25 00:00", []string{"2026-03-29 00:00", "2026-04-05 00:00"}},
		{"Africa/Cairo", "30 4 * * 5", "2026-04-20 00:00", []string{"2026-04-24 01:30", "2026-05-01 01:30"}},
		{"Australia/Lord_Howe", "0 0 * * *", "2026-04-03 20:00", []string{"2026-04-04 13:00", "2026-04-05 13:30", "2026-04-06 13:30"}},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-03 20:00", []string{"2026-04-04 14:45", "2026-04-04 15:15", "2026-04-05 15:15"}},
		{"Pacific/Chatham", "0 3 * * 0", "2026-04-02 00:00", []string{"2026-04-04 13:15", "2026-04-04 14:15", "2026-04-11 14:15"}},
		{"Europe/Berlin", "30 2 * * *", "2026-03-27 12:00", []string{"2026-03-28 01:30", "2026-03-30 00:30"}},
		{"Europe/Berlin", "30 2 * * *", "2026-10-24 12:00", []string{"2026-10-25 00:30", "2026-10-25 01:30", "2026-10-26 01:30"}},
		{"Europe/Berlin", "@hourly", "2026-10-24 23:30", []string{"2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 02:00"}},
		{"America/Santiago", "0 0 * * 0", "2026-09-04 00:00", []string{"2026-09-13 03:00"}},
		{"UTC", "0 0 29 2 *", "2026-01-01 00:00", []string{"2028-02-29 00:00", "2032-02-29 00:00"}},
	} {
		s, err := scheduleOf(c.line, c.zone)
		if _, unknown := time.LoadLocation(c.zone); unknown != nil {
			continue
		}
		require.NoError(t, err)
		from, err := time.Parse(time.DateTime, c.from+":00")
		require.NoError(t, err)
		for _, want := range c.want {
			at := s.Next(from)
			require.Equal(t, want, at.UTC().Format("2006-01-02 15:04"), "%s %s from %v", c.zone, c.line, from)
			for range 200 {
				asked := from.Add(time.Duration(rand.Int64N(int64(at.Sub(from)))))
				require.Equal(t, at.UTC(), s.Next(asked).UTC(), "%s %s asked at %v", c.zone, c.line, asked)
			}
			from = at
		}
	}
	_, err := scheduleOf("0 0 30 2 *", "UTC")
	assert.ErrorContains(t, err, "there is no such day")
}
