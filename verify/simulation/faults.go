package simulation

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// fault breaks something. It returns "" if there is nothing to break.
func (w *world) fault(ready []parcel) string {
	c := w.clients[w.rand.IntN(len(w.clients))]
	switch p := w.cfg.Profile; {
	case w.servers.Slow && w.rand.IntN(2) == 0:
		return w.holdWay(c)
	case p == ZooKeeper && w.rand.IntN(4) == 0:
		return w.ensembleFault(c)
	case p == Etcd && w.rand.IntN(4) == 0:
		return w.etcdFault(c)
	}
	switch what := w.rand.IntN(11); what {
	case 0, 1:
		n := w.rand.IntN(w.scheduler.queue(c.name) + 1)
		w.cut(c.name, n)
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
		return w.endSession(c)
	case 7:
		d := w.tardy()
		w.scheduler.delayAnswers(c.name, d, 2*w.cfg.TTL)
		return fmt.Sprintf("FAULT answers to %s are held back for %v, then nothing reaches the service", c.name, d)
	case 8:
		d := time.Duration(w.rand.Int64N(int64(2 * w.cfg.TTL)))
		if !w.cfg.Profile.hasServers() || !w.strand(c.name, d, w.rand.IntN(2) == 0) {
			return ""
		}
		return fmt.Sprintf("FAULT the server of %s is cut off from the others for %v", c.name, d)
	default:
		n, ok := w.node()
		if !ok {
			return ""
		}
		return w.operate(n, what == 9)
	}
}

func (w *world) endSession(c *client) string {
	if w.rand.IntN(3) > 0 {
		return ""
	}
	end := func() { w.takeAway(func() { w.service.ExpireLink(c.name) }) }
	if w.swift {
		w.swiftly(end)
	} else {
		end()
	}
	return fmt.Sprintf("FAULT %s's session is ended by the service", c.name)
}

// operate lets an operator write to a node, or else remove it.
func (w *world) operate(n driver.Node, write bool) string {
	if !write {
		w.takeAway(func() { w.service.Remove(n.ID) })
		return fmt.Sprintf("FAULT an operator removes the node with token %d", n.Token)
	}
	if w.cfg.Profile == Register {
		lie := "TLRX"[w.rand.IntN(4)]
		w.nap = max(w.nap, w.cfg.TTL*3/2) // who cannot ask whether it is true gives up, and what it held is left to the TTL
		w.service.(*registers).lie(n, lie)
		return fmt.Sprintf("FAULT a stranger tells %c to the node with token %d", lie, n.Token)
	}
	w.service.Write(n.ID, []byte("an operator was here"))
	return fmt.Sprintf("FAULT an operator writes to the node with token %d", n.Token)
}

// swiftly calls f, and parks nothing until everybody has come to rest: the runtime decides which of a client's goroutines
// comes first.
func (w *world) swiftly(f func()) {
	w.mu.Lock()
	for _, line := range w.lines { // somebody may come and go, and nobody looks
		w.crowded[line] = time.Now()
	}
	w.mu.Unlock()
	w.scheduler.openUp()
	f()
	synctest.Wait()
	w.scheduler.closeUp()
}

// loseOne loses a single request or answer. Where the service keeps order, losing one means a cut; there it does nothing.
func (w *world) loseOne(ready []parcel) string {
	if w.cfg.Profile.keepsOrder() || len(ready) == 0 {
		return ""
	}
	p := ready[w.rand.IntN(len(ready))]
	if p.isEvent() && w.cfg.Profile != Etcd {
		p.arrive() // and once more, later
		return "FAULT twice: " + p.String()
	}
	if p.dir == toService && p.stream == "" && w.rand.IntN(4) == 0 {
		w.repeat(p)
		return "FAULT twice: " + p.String()
	}
	if p.dir == toService && p.stream == "" && w.rand.IntN(2) == 0 {
		w.scheduler.postpone(p)
		return "FAULT late: " + p.String()
	}
	w.scheduler.take(p)
	p.lose()
	return "FAULT lost: " + p.String()
}

// repeat lets a request arrive twice. On etcd the second arrival of a join makes a stray node.
func (w *world) repeat(p parcel) {
	w.scheduler.repeat(p)
	if w.cfg.Profile == Etcd {
		w.nap, w.strays = sweeps, sweeps
	}
}

// tardy is how late an answer may come and still be heard.
func (w *world) tardy() time.Duration {
	d := w.clients[0].driver.RequestTimeout()
	switch w.cfg.Profile {
	case Register: // its requests have a fifth less
		return d * 3 / 5
	case ZooKeeper: // it tries another server after three fifths
		return d / 2
	case Etcd: // a renewal has a sixth of the TTL, or 600 ms
		return min(w.cfg.TTL/6, 600*time.Millisecond) * 4 / 5
	}
	return d * 4 / 5
}

// stranding is a time during which the server of a link is cut off from the other servers.
type stranding struct {
	link  string
	until time.Time
	end   func()
}

// strand cuts the server of a link off from the others. In the end it rejoins them, or the link moves to another one. It
// returns false if that server is cut off already.
func (w *world) strand(link string, d time.Duration, moves bool) bool {
	if slices.ContainsFunc(w.stranded, func(s stranding) bool { return s.link == link }) {
		return false
	}
	heal := w.service.Strand(link)
	end := heal
	if moves {
		end = func() {
			w.cut(link, 0)
			if w.cfg.Profile == ZooKeeper { // others are on it, too
				heal()
			}
		}
	}
	w.stranded = append(w.stranded, stranding{link, time.Now().Add(d), end})
	return true
}

// lasts calls end after d.
func (w *world) lasts(d time.Duration, end func()) {
	w.stranded = append(w.stranded, stranding{until: time.Now().Add(d), end: end})
}

// rejoin ends the faults that have lasted long enough, or all of them.
func (w *world) rejoin(all bool) {
	w.stranded = slices.DeleteFunc(w.stranded, func(s stranding) bool {
		over := all || !time.Now().Before(s.until)
		if over {
			s.end()
		}
		return over
	})
}

// cut breaks a connection after a few more requests have arrived.
func (w *world) cut(link string, arrive int) {
	w.scheduler.cut(link, arrive)
	w.service.Reconnect(link)
}
