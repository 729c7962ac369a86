//go:build linux || darwin

package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
)

// sure is a turn that is sure for so long, as it was when it was made.
type sure struct {
	turn
	deadline time.Time
}

func (s *sure) Deadline() time.Time { return s.deadline }

func (s *sure) renewed(ttl time.Duration) { s.deadline = time.Now().Add(ttl) }

// The command is dead before the deadline, is left alone for half of the time without news, and what is told is never too late.
func TestTheLimitsOfALease(t *testing.T) {
	for _, c := range []struct{ ttl, grace, asked, dead time.Duration }{ // when it is asked to end, and when it is killed
		{10 * time.Second, time.Hour, 5 * time.Second, 9 * time.Second},
		{10 * time.Second, time.Second, 8 * time.Second, 9 * time.Second},
		{2 * time.Second, 10 * time.Second, time.Second, 1600 * time.Millisecond},
		{time.Minute, 10 * time.Second, 49 * time.Second, 59 * time.Second},
	} {
		hold := &sure{}
		l := &lease{hold: hold, grace: c.grace}
		hold.renewed(c.ttl)
		at := hold.deadline
		limit, changed := l.until()
		assert.True(t, changed)
		deadline := run.In(time.Until(at))
		assert.WithinDuration(t, at.Add(c.asked-c.ttl), at.Add(time.Duration(limit.Term-deadline)), 300*time.Millisecond, "%v: asked to end", c.ttl)
		assert.WithinDuration(t, at.Add(c.dead-c.ttl), at.Add(time.Duration(limit.Kill-deadline)), 300*time.Millisecond, "%v: killed", c.ttl)
		assert.Less(t, limit.Kill, limit.Last, "the guardian has a moment")
		assert.Less(t, limit.Last-limit.Kill, deadline-limit.Last, "and this process has more, to kill them if the guardian does not")
		assert.True(t, l.covers(deadline-run.Moment(time.Millisecond)))
		assert.False(t, l.covers(deadline+run.Moment(10*time.Millisecond)), "after the deadline it may be somebody else's")
		_, changed = l.until()
		assert.False(t, changed, "nothing was renewed")
		hold.renewed(c.ttl + time.Second)
		later, changed := l.until()
		assert.True(t, changed)
		assert.Greater(t, later.Kill, limit.Kill)
	}
}

// A hold that has been lost before the command could be started lets nothing run; one without a deadline has no limit.
func TestTheLimitOfAHoldThatIsLostOrEndless(t *testing.T) {
	limit, changed := (&lease{hold: &sure{}}).until()
	assert.True(t, changed)
	assert.True(t, limit.Over())
	endless := &lease{hold: &sure{deadline: time.Now().Add(100 * 365 * 24 * time.Hour)}}
	limit, _ = endless.until()
	assert.Equal(t, run.Limit{}, limit)
	assert.False(t, endless.covers(run.Now()), "nobody has promised anything")
}
