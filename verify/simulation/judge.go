package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/verify/simulation/zookeeper"
)

// claim is a hold that a contender has, or had.
type claim struct {
	who   string
	line  string
	kind  string
	hold  *coord.Hold
	token coord.Token
	since time.Time
	// excused is when an operator removed its node, or the service ended its session. The claim then ends when word of that
	// arrives.
	excused time.Time
	back    bool // a backup has brought its node back since: nobody will tell it, and others may have come in
	within  bool // nested in another one, with the same token
	amended bool // its node may be gone under one name and stand under another
}

// prompt is how long something may take that should happen at once.
const prompt = 110 * time.Millisecond

// slowest is how long a driver of a register may wait between two tries after much trouble: half a second, give or take.
const slowest = 700 * time.Millisecond

// unwatched is how long nobody watches over a hold's node: most holds are given back sooner.
const unwatched = 100 * time.Millisecond

// believes reports whether the claimant would say now that it holds.
func (c *claim) believes() bool { return c.hold.Err() == nil }

// place is the claim's place in line, which it may share.
func (c *claim) place() turn { return turn{c.line, ofNode(c.token)} }

// ofNode is the token of the node that a turn is of.
func ofNode(t coord.Token) coord.Token { return t &^ (1<<coord.TurnBits - 1) }

// conflict judges two holds of a line. It does not use the rules, on purpose.
func conflict(a, b string) bool {
	switch {
	case a == "R" && b == "R":
		return false
	case isPermits(a) && isPermits(b):
		return false // judged together
	}
	return true
}

// judge looks at everybody who believes that it holds, at a moment when nothing moves.
func (w *world) judge() error {
	w.mu.Lock()
	claims := make([]claim, 0, len(w.claims))
	for _, c := range w.claims {
		claims = append(claims, *c)
	}
	w.mu.Unlock()
	var believers []claim
	for _, c := range claims {
		ended := c.hold.Context().Err() != nil
		if c.excused.IsZero() {
			c.excused = w.service.Taken(c.hold.Node().ID)
		}
		switch believes := c.believes(); {
		case !believes && !ended:
			return fmt.Errorf("%s: the context outlived the hold (%v)", c.who, c.hold.Err())
		case !believes:
			continue
		case ended:
			return fmt.Errorf("%s: the context has ended, and yet the hold says it is held", c.who)
		}
		if !c.within {
			c.kind = c.hold.Node().Kind // what it takes itself for
		}
		if err := w.hears(c); err != nil {
			return err
		}
		if c.excused.IsZero() {
			believers = append(believers, c)
			if err := w.outlived(c); err != nil {
				return err
			}
		}
	}
	if err := together(believers); err != nil {
		return err
	}
	return w.asleep(claims)
}

// stopsIn is how soon a holder stops that hears that its node is gone. On registers it first asks whether that is true.
func (w *world) stopsIn() time.Duration {
	if w.cfg.Profile == Register {
		return prompt + w.clients[0].driver.RequestTimeout()*2/5
	}
	return prompt
}

// hears fails if a believer should have heard by now that its node is gone, or has heard it and goes on.
func (w *world) hears(c claim) error {
	if !c.excused.IsZero() && !c.back && !w.healed.IsZero() && time.Since(later(c.excused, w.healed)) > w.cfg.TTL {
		return fmt.Errorf("%s never hears that its node is gone", c.who)
	}
	if told := w.scheduler.heardGone(incarnation(c.hold.Node())); !c.amended && !c.back && told.After(c.since.Add(unwatched)) && time.Since(told) > w.stopsIn() {
		return fmt.Errorf("%s goes on, though it has heard that its node is gone", c.who)
	}
	return nil
}

// together fails if some of the believers may not hold at the same time.
func together(believers []claim) error {
	permits, out := make(map[string]int64), make(map[string]int64)
	for i, a := range believers {
		for _, b := range believers[:i] {
			if a.line == b.line && a.token != b.token && conflict(a.kind, b.kind) {
				return fmt.Errorf("two hold %s at once: %s (%s, token %d) and %s (%s, token %d)",
					a.line, b.who, b.kind, b.token, a.who, a.kind, a.token)
			}
		}
		if weight, n, ok := permitsOf(a.kind); ok {
			if least, known := permits[a.line]; !known || n < least {
				permits[a.line] = n
			}
			if out[a.line] += weight; out[a.line] > permits[a.line] {
				return fmt.Errorf("%d permits of %s are out when %s has its own, and there are %d", out[a.line], a.line, a.who, permits[a.line])
			}
		}
	}
	return nil
}

// outlived looks for a hold that lasts longer, by its own account, than the service keeps its session.
func (w *world) outlived(c claim) error {
	expiry, deadline := w.service.Expiry(c.hold.Node().ID), c.hold.Deadline()
	switch {
	case deadline.IsZero():
	case expiry.IsZero():
		return fmt.Errorf("%s holds until %v by its own account, and its session has ended", c.who, deadline.Sub(w.began))
	case deadline.After(expiry):
		return fmt.Errorf("%s holds until %v by its own account, and its session until %v", c.who, deadline.Sub(w.began), expiry.Sub(w.began))
	}
	return nil
}

// refused judges a try that returned busy: the service must have said so, and it must have been true, unless the client lets the time pass
// in which others may hold of whom the service knows no more.
func (w *world) refused(c *client, who, line string, began time.Time, heard int) {
	if c.Health().Recovery > 0 {
		return
	}
	if w.scheduler.heard(linkOf(who)) == heard {
		w.mu.Lock()
		w.report("%s: busy, though the service has not answered", who)
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.nodes(line)) == 0 && w.crowded[line].Before(began) {
		w.report("%s: busy, though nobody stood in %s", who, line)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// asleep looks for a contender whose turn it is according to the service, while nothing is on its way that would tell it.
// Polling would help, but much later.
func (w *world) asleep(claims []claim) error {
	mine := make(map[turn]bool)
	for _, c := range claims {
		mine[c.place()] = true
	}
	if w.cfg.Recipe == "several" { // whoever has one of two lines may wait for the other
		w.mu.Lock()
		for t := range w.partial {
			mine[t] = true
		}
		w.mu.Unlock()
	}
	moving := w.healed.IsZero() || w.cfg.Profile == Register && time.Since(w.healed) < slowest || slices.ContainsFunc(w.scheduler.ready(), parcel.moves) || w.newsIsDue()
	for _, line := range w.lines {
		nodes := w.nodes(line)
		if len(nodes) > 0 {
			w.mu.Lock()
			w.crowded[line] = time.Now()
			w.mu.Unlock()
		}
		next := slices.IndexFunc(nodes, func(n driver.Node) bool {
			waits := w.cfg.Recipe == "barrier" && n.Kind == rules.Reader // for others to come
			return !mine[turn{line, n.Token}] && !waits
		})
		since, known := w.idle[line]
		nap := w.nap
		if next >= 0 && slices.ContainsFunc(nodes[:next+1], func(n driver.Node) bool { return w.service.Expiry(n.ID).IsZero() || w.service.Abandoned(n.ID) }) {
			nap = 2 * w.cfg.TTL // its session ended before it came, and those who wait for it look once in a TTL
		}
		switch {
		case moving || next < 0 || !fits(nodes[:next+1]):
			delete(w.idle, line)
		case !known:
			w.idle[line] = time.Now()
		case time.Since(since) > nap:
			return fmt.Errorf("nobody moves in line %s, though it is the turn of token %d", line, nodes[next].Token)
		}
	}
	return nil
}

// newsIsDue reports whether a replica has yet to learn of something that somebody may wait for.
func (w *world) newsIsDue() bool {
	if f, ok := w.service.(*ensemble); ok { // its clients keep writing, only to show that they are alive
		return slices.ContainsFunc(f.zk.Members(), (*zookeeper.Member).MissesNews)
	}
	return len(w.lagging()) > 0
}

// fits reports whether the last of the nodes may hold while all before it stand.
func fits(nodes []driver.Node) bool {
	last := nodes[len(nodes)-1]
	sum, permits, weighted := permitsOf(last.Kind)
	for _, n := range nodes[:len(nodes)-1] {
		if conflict(n.Kind, last.Kind) {
			return false
		}
		weight, p, _ := permitsOf(n.Kind)
		sum, permits = sum+weight, min(permits, p)
	}
	return !weighted || sum <= permits
}

func isPermits(kind string) bool {
	_, _, ok := permitsOf(kind)
	return ok
}

func permitsOf(kind string) (weight, n int64, ok bool) {
	a, b, found := strings.Cut(kind, "of")
	if !found || strings.IndexByte("SQG", kind[0]) < 0 {
		return 0, 0, false
	}
	a = a[1:]
	weight, _ = strconv.ParseInt(a, 10, 64)
	n, _ = strconv.ParseInt(b, 10, 64)
	return weight, n, true
}

// greatest are the greatest tokens of each line and kind.
type greatest map[string]map[string]coord.Token

func (g greatest) add(line, kind string, token coord.Token) {
	if g[line] == nil {
		g[line] = make(map[string]coord.Token)
	}
	g[line][kind] = max(g[line][kind], token)
}

// rival returns the greatest token of a kind that may not hold beside this one.
func (g greatest) rival(line, kind string) (other string, token coord.Token) {
	for k, t := range g[line] {
		if conflict(k, kind) && t > token {
			other, token = k, t
		}
	}
	return other, token
}

// granted judges the order: nobody may be let in after a contender that stands behind it and had to wait for it.
func (w *world) granted(who, line string, h *coord.Hold) *claim {
	c := &claim{who: who, line: line, kind: h.Node().Kind, hold: h, token: h.Token(), since: time.Now()}
	c.amended = c.kind[0] == 'Q'    // a holder of one of many permits says so in its node
	back := w.standing()[c.place()] // if the node had gone, a backup has brought it back
	stands := w.incarnations()[h.Node().ID]
	w.mu.Lock()
	defer w.mu.Unlock()
	if came, known := w.partial[turn{line, c.token}]; known && slices.Contains([]string{"several", "once", "ranked"}, w.cfg.Recipe) { // it was had some time before
		c.since = came
	}
	w.grants++
	c.excused = later(w.taken[c.place()], w.service.Taken(h.Node().ID))
	if !stands {
		c.excused = later(c.excused, w.unmade[h.Node().ID])
	}
	if err := h.Err(); errors.Is(err, coord.ErrLost) && !errors.Is(err, coord.ErrClosed) && c.excused.IsZero() {
		w.report("%s was given a turn in %s that had ended: %v", who, line, err)
	}
	// A contender that comes late to its turn asks by an amendment, and does not listen meanwhile. Of things that arrive at
	// once, either may be heard first.
	told := w.scheduler.heardGone(incarnation(h.Node()))
	another := w.cfg.Recipe == "together" && c.token != c.place().token+1 // a later turn of its node
	if w.waited[placeOf(h.Node())] && !back && !another && !told.IsZero() && told.Before(c.since) && !amends(w.scheduler.lastAnswer(linkOf(who))) {
		w.report("%s entered %s, though it had heard before that its own node is gone", who, line)
	}
	if _, _, weighted := permitsOf(c.kind); !weighted && c.excused.IsZero() {
		if kind, last := w.last.rival(line, c.kind); c.token <= last {
			w.report("%s was granted %s with token %d, after %d of kind %s", who, line, c.token, last, kind)
		}
	}
	if (c.excused.IsZero() || !w.restored) && !c.since.Before(w.restoredAt) { // a backup does not know of it
		w.last.add(line, c.kind, c.token)
	}
	w.succeeds(c)
	w.claims = append(w.claims, c)
	return c
}

// succeeds compares a hold with those that its client had on an earlier session: they must have ended before.
func (w *world) succeeds(c *claim) {
	for _, old := range w.claims {
		if old.line != c.line || linkOf(old.who) != linkOf(c.who) || !conflict(old.kind, c.kind) || old.hold.Context().Err() != nil {
			continue
		}
		if w.service.Expiry(old.hold.Node().ID).IsZero() && !w.service.Expiry(c.hold.Node().ID).IsZero() {
			w.report("%s was granted %s on a new session, and %s goes on as if it held it on the one before", c.who, c.line, old.who)
		}
	}
}

// guarded returns a function that sends a write under the hold's guard, or nil if there is no guard. The write may be sent,
// and may arrive, when the hold is long over. Then it must not be taken if a later holder has written.
func (w *world) guarded(link, line string, h *coord.Hold) (send func()) {
	taken := w.service.Guarded(h)
	if taken == nil {
		return nil
	}
	token := h.Token()
	arrive := func() {
		kind := h.Node().Kind // a writer that has become a reader has to await its answers first: see rwlock.Downgrade
		if !taken() {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.restored { // nodes that had gone stand again
			return
		}
		if _, last := w.written.rival(line, kind); token < last {
			w.report("a guarded write to %s with token %d was taken after one with %d", line, token, last)
		}
		w.written.add(line, kind, token)
	}
	return func() {
		w.scheduler.post(&parcel{link: link, what: fmt.Sprintf("guarded write in %s with token %d", line, token), dir: toService,
			lose: func() {}, arrive: arrive})
	}
}

// linkOf returns the link over which a contender is served.
func linkOf(who string) string { return who[:len(who)-1] }

// amends reports whether a request may have been an amendment.
func amends(op string) bool {
	for _, prefix := range []string{"amend ", "multi ", "set ", "swap line/", "read line/"} {
		if strings.HasPrefix(op, prefix) {
			return true
		}
	}
	return op == "amend"
}

// nested records the claim of a hold inside another one. It shares the other's node, and must end when that node no longer
// bears it.
func (w *world) nested(who, line string, h *coord.Hold) *claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &claim{who: who + " within", line: line, kind: "W", hold: h, token: h.Token(), since: time.Now(), within: true, amended: true}
	c.excused = w.taken[c.place()]
	w.claims = append(w.claims, c)
	return c
}

func (w *world) released(c *claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.claims {
		if other == c {
			w.claims = append(w.claims[:i], w.claims[i+1:]...)
			return
		}
	}
}

// takeAway calls f, which takes nodes away out of the blue. It excuses all who hold through one of these, or are about to
// hear that they do. Nobody is judged meanwhile: who is let in by what f does may be heard of before those who are excused.
func (w *world) takeAway(f func()) {
	if w.servers.Slow { // what goes by itself is not excused
		w.ensemble().zk.Settle()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.standing(), w.incarnations()
	f()
	after, left := w.standing(), w.incarnations()
	for t := range before {
		if !after[t] {
			w.taken[t] = time.Now()
		}
	}
	for id := range known {
		if !left[id] {
			w.unmade[id] = time.Now()
		}
	}
	for _, c := range w.claims {
		if c.excused.IsZero() {
			c.excused = w.taken[c.place()]
		}
	}
}

// nodes returns a line as the service has it, with the tokens that users see.
func (w *world) nodes(line string) []driver.Node {
	nodes := w.service.Nodes(line)
	for i := range nodes {
		nodes[i].Token <<= coord.TurnBits
	}
	return nodes
}

// incarnations are the nodes that stand, by their IDs.
func (w *world) incarnations() map[string]bool {
	all := make(map[string]bool)
	for _, name := range w.service.Names("") {
		for _, n := range w.service.Nodes(name) {
			all[n.ID] = true
		}
	}
	return all
}

func (w *world) standing() map[turn]bool {
	all := make(map[turn]bool)
	for _, name := range w.service.Names("") {
		for _, n := range w.nodes(name) {
			all[turn{name, n.Token}] = true
		}
	}
	return all
}

// inTime judges how long a call took after its context had ended.
func (w *world) inTime(who, what string, limit time.Time) {
	if late := time.Since(limit); late > prompt {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.report("%s: %s returned %v after its context had ended", who, what, late)
	}
}

// report keeps the first thing that went wrong. It is called with mu held.
func (w *world) report(format string, args ...any) {
	if w.wrong == nil {
		w.wrong = fmt.Errorf(format, args...)
	}
}
