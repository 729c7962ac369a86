package simulation

import (
	"fmt"
	"time"

	"github.com/turnwise/turnwise/internal/memory"
)

// fault breaks something. It returns "" if there is nothing to break.
func (w *world) fault(ready []parcel) string {
	c := w.clients[w.rand.IntN(len(w.clients))]
	switch w.rand.IntN(9) {
	case 0, 1:
		n := w.rand.IntN(w.scheduler.queue(c.name) + 1)
		w.scheduler.cut(c.name, n)
		w.service.Reconnect(c.name)
		return fmt.Sprintf("FAULT %s is cut, after %d more requests have arrived", c.name, n)
	case 2, 3:
		return w.loseOne(ready)
	case 4, 5:
		ways := []direction{toService, toDriver, toService | toDriver}[w.rand.IntN(3)]
		d := time.Duration(w.rand.Int64N(int64(w.cfg.TTL)))
		if w.rand.IntN(3) == 0 {
			d *= 2
		}
		w.scheduler.freeze(c.name, ways, d)
		return fmt.Sprintf("FAULT %s is frozen (%d) for %v", c.name, ways, d)
	case 6:
		if w.rand.IntN(3) > 0 {
			return ""
		}
		w.takeAway(func() { w.service.ExpireLink(c.name) })
		return fmt.Sprintf("FAULT %s's session is ended by the service", c.name)
	case 7:
		d := c.driver.RequestTimeout() * 4 / 5
		w.scheduler.delayAnswers(c.name, d, 2*w.cfg.TTL)
		return fmt.Sprintf("FAULT answers to %s are held back for %v, then nothing reaches the service", c.name, d)
	default:
		n, ok := w.node()
		if !ok {
			return ""
		}
		w.takeAway(func() { w.service.Remove(n.ID) })
		return fmt.Sprintf("FAULT an operator removes the node with token %d", n.Token)
	}
}

// loseOne loses a single request or answer. Where the service keeps order, losing one means a cut, so it does nothing.
func (w *world) loseOne(ready []parcel) string {
	if w.cfg.Profile == memory.ZooKeeper || len(ready) == 0 {
		return ""
	}
	p := ready[w.rand.IntN(len(ready))]
	if p.who == "" && len(p.what) > 6 && p.what[:6] == "event " {
		p.arrive() // and once more, later
		return "FAULT twice: " + p.String()
	}
	if p.dir == toService && w.rand.IntN(2) == 0 {
		w.scheduler.postpone(p)
		return "FAULT late: " + p.String()
	}
	w.scheduler.take(p)
	p.lose()
	return "FAULT lost: " + p.String()
}
