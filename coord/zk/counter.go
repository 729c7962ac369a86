package zk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// beginAnew is for a join whose number cannot be used, and whose node has left the line again: the number was too close to
// the end, or the token would be above the service's latest transaction, because somebody made many nodes in one. beginAnew
// waits until the line is empty, and removes the directory. The next directory counts from zero, and its tokens are above
// all of this one's: the id of its birth is above that of any earlier transaction. If several joins wait for that, one will
// be first; the others can tell the new directory by its birth.
func (j *joining) beginAnew(ctx context.Context, born int64) error {
	s := j.session
	s.service.log.Info("zk: the numbers of a line are used up; it begins anew when it is empty", "line", j.entry.Line)
	guid := newGUID()
	s.roster.rename(j.contender.guid, guid)
	j.contender.guid = guid
	for tries := 0; ; tries++ {
		l, err := s.children(ctx, j.dir)
		if errors.Is(err, gozk.ErrNoNode) || err == nil && l.Born != born {
			return errJoinAgain
		}
		if err != nil {
			return err
		}
		switch {
		case !slices.ContainsFunc(l.Names, isContender):
			err = s.insist(ctx, func(c *gozk.Conn) error { return c.Delete(j.dir, -1) })
			switch {
			case err == nil, errors.Is(err, gozk.ErrNoNode):
				return errJoinAgain
			case !errors.Is(err, gozk.ErrNotEmpty):
				return explainRefusal(err, "removing", j.dir, "DELETE", path.Dir(j.dir))
			case len(l.Names) > 0:
				return fmt.Errorf("%s has used up its numbers and cannot be removed to begin anew, because it holds %q: "+
					"remove what is below it, or use another name", j.dir, l.Names[0])
			}
		case j.entry.Free != nil:
			return driver.ErrBusy
		}
		if tries == 0 && j.entry.Waits != nil {
			j.entry.Waits()
		}
		if pause(ctx, tries) != nil {
			return s.stopped(ctx)
		}
	}
}
