package zk

import (
	"errors"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// discard takes a node of ours away and does not return before that is done or the session has ended.
func (s *session) discard(nodePath string) {
	for try := 0; ; try++ {
		err := s.takeAwayPath(s.ctx, nodePath, false)
		if err == nil || errors.Is(err, gozk.ErrNoNode) || errors.Is(err, driver.ErrSessionEnded) {
			break
		}
		if !passing(err) {
			s.driver.log.Warn("a node cannot be taken away and stays until the session ends", "node", nodePath, "error", err)
			try = max(try, 20)
		}
		if sleep(s.ctx, backOff(try)) != nil {
			break
		}
	}
	s.mu.Lock()
	delete(s.standing, nodePath)
	s.mu.Unlock()
}

// audit looks after a create that had no answer, twice and later on. A server may yet take requests from the
// connection that broke, in the moment in which it takes the new one; what such a straggler makes belongs to nobody.
func (s *session) audit(dir string, made contender) {
	s.spawn(func() {
		for _, after := range []time.Duration{200 * time.Millisecond, s.timeout() / 2} {
			if sleep(s.ctx, after) != nil {
				return
			}
			l, err := s.freshChildren(s.ctx, dir)
			if err != nil {
				continue
			}
			for _, name := range made.twins(l.names) {
				s.mu.Lock()
				wanted := s.standing[dir+"/"+name] != nil
				s.mu.Unlock()
				if !wanted {
					s.discard(dir + "/" + name)
				}
			}
		}
	})
}
