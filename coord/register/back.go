package register

import (
	"errors"
	"math"
	"time"
)

var errWentBack = errors.New("the line has gone back")

// wentBack is called when a line is found as it was before. Whoever can write to it can do that, so it says nothing of other
// lines: if the store has gone back as a whole, the registers of the sessions tell. But what was granted since does not stand
// in the line any more. So all of ours lose their places in it, and none joins until everybody has noticed.
func (c *clerk) wentBack(was, is uint64) {
	ctx, cancel := c.d.request()
	defer cancel()
	longest, err := c.d.longestTTL(ctx)
	if err != nil {
		longest = c.d.cfg.longest
	}
	c.mu.Lock()
	c.seen, c.stood, c.back = 0, time.Time{}, time.Now().Add(longest)
	c.mu.Unlock()
	c.d.warn(&c.d.wentBack, 10*time.Second, "turnwise: a line has gone back to an earlier state: all who stand there lose their places",
		"line", c.name, "was", was, "is", is)
	for _, s := range c.d.allSessions() {
		s.lose(c)
	}
	c.want(newWish(nil, func(d *draft, _ try) error { // perhaps there are some that had left
		d.remove(math.MaxInt, removed, func(n node) bool { return c.d.session(d.members[n.member].id) != nil })
		return nil
	}))
}

// lose takes away the session's places in a line.
func (s *session) lose(c *clerk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		p.mu.Lock()
		if p.clerk == c && p.shown.ID != "" { // otherwise it is about to join
			p.removed = math.MaxUint64
			p.bell.Ring()
		}
		p.mu.Unlock()
	}
}
