package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
)

// The model: servers that vote, and processes that swap, read, heal, reform and collect, in random order. Each step is one request to one
// server. Any of them may be lost, answered in vain, or applied much later. Servers are away, forget, and come back with the file
// of before. In every other walk the processes take turns with whole operations, but some are stopped within one: what needs a long
// sleep is found only there. What is decided is decided by the shipped functions; the scripts, and the order of requests, are repeated here.
//
// Checked is that what was read or swapped is one chain, in the order of time.
type world struct {
	rnd  *rand.Rand
	flaw string // what is left out

	boxes    []*box
	directed bool     // whole operations
	plot     int      // in which order they come; 0: in any
	loss     int      // one request in so many is lost
	later    []func() // requests on their way
	least    int      // how many a process names
	only     []*box   // that are named; nil: any
	names    int      // how many more it may name, and one
	reforms  int      // how many processes heal and reform
	meddles  []int    // what may happen to servers
	sleepers int      // how many may be stopped
	lasts    int      // how many operations a process has at most
	collects int      // how seldom the others collect

	step  int
	began []int                    // when each process began what it does
	born  map[register.Version]int // when it was proposed first

	chain  []content                 // what stood in the register, one after the other
	denied map[register.Version]bool // swaps of which it was said that they were not applied
	forgot bool                      // a register was forgotten
	wrong  string

	actors []*actor
	swaps  int
	terms  uint64

	rosters map[uint64]string // that were decided on
	given   int               // how many of them instead of others, which were given up
}

// modelled are the registers.
var modelled = []string{"r", rosterKey}

// box is a server.
type box struct {
	address string
	now     disk
	old     *disk // of the memory before
	named   int
	away    bool
}

// disk is what a server has.
type disk struct {
	memory string
	state  string // v, or h with a nonce
	roster *roster
	floor  ballot
	kept   map[string]kept
}

func (w *world) one(in int) bool { return w.rnd.IntN(in) == 0 }

func (b *box) fresh() {
	b.named++
	b.now = disk{memory: fmt.Sprintf("%s%015d", b.address, b.named), kept: make(map[string]kept)}
}

// member is what it says of itself.
func (b *box) member() member {
	m := member{acceptor: &acceptor{Server: &server.Server{Address: b.address}}, memory: server.Called(b.now.memory)}
	if b.now.state == "v" {
		m.roster = b.now.roster
	}
	return m
}

// vote is inTerm, and the guard.
func (b *box) vote(memory string, r *roster, do func(d *disk) vote) vote {
	switch {
	case b.now.memory != memory:
		return vote{err: register.ErrForgot}
	case b.now.state != "v" || b.now.roster.term != r.term:
		return vote{err: errMoved}
	}
	return do(&b.now)
}

func prepares(key string, at ballot) func(*disk) vote {
	return func(d *disk) vote {
		k, has := d.kept[key]
		if floor := d.floor; !has && !floor.less(at) {
			return vote{refused: true, higher: floor}
		}
		if has && !k.promised.less(at) {
			return vote{refused: true, higher: k.promised}
		}
		k.promised = at
		d.kept[key] = k
		return vote{accepted: k.accepted}
	}
}

func accepts(key string, a accepted) func(*disk) vote {
	return func(d *disk) vote {
		k, has := d.kept[key]
		if floor := d.floor; !has && !floor.less(a.ballot) {
			return vote{refused: true, higher: floor}
		}
		if has && a.ballot.less(k.promised) {
			return vote{refused: true, higher: k.promised}
		}
		d.kept[key] = kept{promised: a.ballot.next(), accepted: a}
		return vote{}
	}
}

func looks(key string) func(*disk) vote {
	return func(d *disk) vote { return vote{accepted: d.kept[key].accepted} }
}

// process is somebody's.
type process struct {
	w     *world
	q     *Store
	boxes []*box          // that it names
	wait  func(over bool) // an operation is over
	r     *roster
	seats map[*box]string

	promises map[string]promised
	actor    int
	accepts  int // how many requests to accept something it has sent, and one if it is about to; 0: none yet
}

// ask sends a request. It reports whether there is an answer.
func (p *process) ask(b *box, do func()) bool {
	p.wait(false)
	if p.accepts > 0 {
		p.accepts++
	}
	switch {
	case b.away || p.w.one(p.w.loss):
		return false
	case p.w.one(p.w.loss):
		p.w.later = append(p.w.later, do)
		return false
	}
	do()
	return !p.w.one(p.w.loss)
}

// send sends a request whose answer nobody waits for.
func (w *world) send(b *box, do func()) {
	switch {
	case b.away || w.one(8):
	case w.one(8):
		w.later = append(w.later, do)
	default:
		do()
	}
}

func (p *process) shuffled() []*box {
	all := slices.Clone(p.boxes)
	p.w.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (p *process) survey(enough func([]member) bool) (all []member) {
	for _, b := range p.shuffled() {
		if enough(all) {
			break
		}
		var m member
		if !p.ask(b, func() { m = b.member() }) {
			m = member{acceptor: &acceptor{Server: &server.Server{Address: b.address}}, err: errBusy}
		}
		all = append(all, m)
	}
	return all
}

func (p *process) box(m *member) *box {
	return p.boxes[slices.IndexFunc(p.boxes, func(b *box) bool { return b.address == m.Address })]
}

// move is moveScript.
func (p *process) move(m *member, r *roster) error {
	b, memory := p.box(m), m.memory.ID()
	var got member
	if !p.ask(b, func() {
		if d := &b.now; d.memory == memory && d.state == "v" && d.roster.term < r.term && (d.roster.term >= m.listedSince(r) || p.w.flaw == "wakes") {
			d.roster = r
		}
		got = b.member()
	}) {
		return errBusy
	}
	if got.memory.ID() != memory || got.roster == nil || got.roster.term < r.term {
		return errNoVote
	}
	m.roster = got.roster
	return nil
}

func (p *process) join(r *roster, all []member) {
	for i := range all {
		if all[i].lags(r) {
			all[i].err = p.move(&all[i], r)
		}
	}
	if p.r == nil || p.r.term < r.term {
		p.r = r
		clear(p.seats)
	}
	for _, m := range all {
		if m.err == nil && m.votes(p.r) {
			p.seats[p.box(&m)] = m.memory.ID()
		}
	}
}

func (p *process) recall() bool {
	all := p.survey(isMajority)
	r := rosterOf(all)
	if r != nil {
		p.join(r, all)
	}
	return r != nil
}

// opens is assemble.
func (p *process) opens() bool {
	if p.recall() {
		return true
	}
	all := p.survey(func([]member) bool { return false })
	r := halfwayOf(all)
	if r != nil {
		p.join(r, all)
	}
	return r != nil
}

func (p *process) poll(do func(*disk) vote) (t tally, err error) {
	for tries := range 4 {
		r := p.r
		t = tally{of: len(p.boxes), again: tries > 0 && p.w.flaw != "vain"}
		for _, b := range p.shuffled() {
			memory, seated := p.seats[b]
			if !seated {
				continue
			}
			if len(t.yes) == r.majority() { // the others are asked as well, and not waited for
				p.w.send(b, func() { b.vote(memory, r, do) })
				continue
			}
			v := vote{err: errBusy}
			got := vote{}
			if p.ask(b, func() { got = b.vote(memory, r, do) }) {
				v = got
			}
			if v.err == register.ErrForgot {
				delete(p.seats, b)
			}
			switch t.moved = t.moved || v.err == errMoved; {
			case v.err != nil:
			case v.refused:
				t.refused++
				t.higher = append(t.higher, v.higher)
			default:
				t.yes = append(t.yes, v)
			}
		}
		if len(t.yes) == r.majority() {
			return t, nil
		}
		if !t.moved {
			return t, errRefused
		}
		if p.recall(); p.r == r {
			return t, errMoved
		}
	}
	return t, errMoved
}

// change is proposal.round, again and again. It reports whether it came to something.
func (p *process) change(key string, edit edit) (accepted, bool) {
	var last ballot
	for range 4 {
		has := p.promises[key]
		delete(p.promises, key)
		at, now := has.ballot, has.last
		if has.group == "" {
			at = ballot{at.count + 1000, 1 + p.w.rnd.Uint64N(ballotEnd)}
			t, err := p.poll(prepares(key, at))
			if err != nil {
				p.higher(key, at, t.toExceed(p.r.majority()))
				continue
			}
			now = latest(t.yes)
		}
		next, _ := edit(now.content, last != ballot{})
		proposed := accepted{ballot: at, content: next}
		p.accepts = 1
		t, err := p.poll(accepts(key, proposed))
		if err == nil {
			p.promises[key] = promised{ballot: at.next(), last: proposed, group: p.r.group}
			return proposed, true
		}
		if !t.isVain() {
			last = at
		}
		p.higher(key, at, t.toExceed(p.r.majority()))
		if t, err := p.poll(looks(key)); err == nil && agree(t.yes) && (last == ballot{} || last.less(t.yes[0].accepted.ballot)) {
			now := latest(t.yes)
			if next, _ := edit(now.content, last != ballot{}); next.id == now.content.id {
				return now, true
			}
		}
	}
	return accepted{}, false
}

func (p *process) higher(key string, at, higher ballot) {
	if at.less(higher) {
		at = higher
	}
	p.promises[key] = promised{ballot: at}
}

func (p *process) rewrite(key string) (accepted, bool) {
	return p.change(key, func(now content, _ bool) (content, time.Duration) { return now, 0 })
}

// read reads, and checks what is there.
func (p *process) read() (content, bool) {
	since := len(p.w.chain) - 1
	t, err := p.poll(looks("r"))
	if err != nil {
		return content{}, false
	}
	a, ok := latest(t.yes), true
	if !agree(t.yes) {
		a, ok = p.rewrite("r")
	}
	if ok {
		p.w.saw(a.content, since)
	}
	return a.content, ok
}

// swap replaces what it has read, or deletes it.
func (p *process) swap(now content) {
	since := len(p.w.chain) - 1
	s := register.Swap{Key: "r", Old: now.version, Next: register.NewVersion()}
	if !now.version.IsZero() && p.w.one(3) {
		s.Next = register.Version{}
	}
	sw := &swapping{Swap: s}
	a, ok := p.change("r", func(now content, tried bool) (content, time.Duration) {
		next, _ := sw.edit(now, tried)
		if next.id != now.id {
			p.w.born[next.id] = p.w.step
		}
		return next, 0
	})
	switch {
	case !ok:
	case sw.outcome == nil || errors.Is(sw.outcome, register.ErrConflict):
		if p.w.saw(a.content, since); sw.outcome != nil && !sw.next.id.IsZero() {
			p.w.denied[sw.next.id] = true
		}
		p.w.swaps++
	}
}

// saw checks that what was seen stands in the chain, and not before since.
func (w *world) saw(c content, since int) {
	at := slices.IndexFunc(w.chain, func(o content) bool { return o.id == c.id })
	switch {
	case at >= 0:
		w.chain[at].version = c.version
	case c.id.IsZero(): // as before the first, or it has gone and was forgotten
		for at = len(w.chain) - 1; at >= 0 && !w.chain[at].version.IsZero(); at-- {
		}
	default:
		from := len(c.past) // what has been there since the last that was seen, the latest first
		if n := len(w.chain); n > 0 {
			tip := w.chain[n-1]
			if i := slices.Index(c.past, tip.id); i >= 0 {
				from = i
			} else if !tip.version.IsZero() {
				w.wrong = fmt.Sprintf("%x stands there, and %x was undone", c.id, tip.id)
			}
		}
		for _, id := range slices.Backward(c.past[:from]) {
			w.chain = append(w.chain, content{id: id, version: id})
		}
		w.chain = append(w.chain, c)
		return
	}
	if at < since {
		w.wrong = fmt.Sprintf("number %d of %d was seen (%x), and %d before", at, len(w.chain), c.id, since)
	}
}

// reform is takeSteps, with enact and fill.
func (p *process) reform(plan func(*roster, []member) (*roster, error)) {
	for range 6 {
		all := p.survey(func([]member) bool { return false })
		r := cmp.Or(rosterOf(all), halfwayOf(all))
		if r == nil {
			return
		}
		p.join(r, all)
		if m := unfilled(r, all); m != nil {
			p.fill(r, m, all)
			continue
		}
		next, err := plan(r, all)
		if err != nil || next == nil {
			return
		}
		p.enact(r, next, all)
	}
}

func (p *process) enact(r, next *roster, all []member) {
	id := register.NewVersion()
	decided, ok := p.change(rosterKey, func(now content, _ bool) (content, time.Duration) {
		if instead := afterDecision(r, decision(r.group, now), next, all); instead != nil {
			return content{id: id, version: id, value: []byte(instead.String())}, 0
		}
		return now, 0
	})
	if !ok {
		return
	}
	is := decision(r.group, decided.content)
	if decided.content.id != id {
		var err error
		if next, err = others(r, is, all); err != nil {
			return
		}
	} else {
		if is.term > next.term {
			p.w.given++
		}
		next = is
	}
	if text := p.w.rosters[next.term]; text != "" && text != next.String() {
		p.w.wrong = fmt.Sprintf("two rosters of one term: %s, and %s", text, next)
	}
	p.w.rosters[next.term] = next.String()
	p.w.terms = max(p.w.terms, next.term)
	for i := range all {
		if m := &all[i]; m.votes(r) || m.lags(r) {
			_ = p.move(m, next)
		}
	}
}

func (p *process) fill(r *roster, m *member, all []member) {
	b, memory := p.box(m), m.memory.ID()
	filling := fmt.Sprintf("h %x", register.NewVersion())
	// step does something on the server if it is what it was.
	step := func(is func(d *disk) bool, do func(d *disk)) bool {
		done := false
		return p.ask(b, func() {
			if d := &b.now; d.memory == memory && is(d) {
				do(d)
				done = true
			}
		}) && done
	}
	ours := func(d *disk) bool { return d.state == filling }
	if !step(func(d *disk) bool { return d.state != "v" || d.roster.term < m.listedSince(r) }, func(d *disk) { d.state, d.roster = filling, r }) {
		return
	}
	from, enough := sources(r, m, all, func(o *member) error {
		if p.w.flaw == "untold" {
			return nil
		}
		return p.move(o, r)
	})
	switch p.w.flaw {
	case "few":
		enough--
	case "only":
		from = slices.DeleteFunc(from, func(a *acceptor) bool { _, has := r.seatOf(memoryOf(a)); return !has })
	}
	dumps := p.dump(r, from, enough)
	if dumps == nil {
		return
	}
	union, floor := unite(dumps)
	for _, key := range modelled {
		k := union[key]
		if !isOpen(dumps, key, k) || p.w.flaw == "open" || p.w.flaw == "between" && !k.accepted.ballot.next().less(k.promised) {
			continue
		}
		a, ok := p.takeOver(r, from, enough, key)
		if !ok {
			return
		}
		union[key] = k.after(a)
	}
	if p.w.flaw == "empty" {
		clear(union)
	}
	if !step(ours, func(d *disk) {
		if d.kept = make(map[string]kept); d.floor.less(floor) && p.w.flaw != "floor" {
			d.floor = floor
		}
	}) {
		return
	}
	for _, key := range modelled {
		if k, has := union[key]; has && !step(ours, func(d *disk) { d.kept[key] = k }) {
			return
		}
	}
	step(ours, func(d *disk) { d.state, d.roster = "v", r })
}

func memoryOf(a *acceptor) string {
	m, _ := a.seat.Current()
	return m.ID()
}

// takeOver is that of a store.
func (p *process) takeOver(r *roster, from []*acceptor, enough int, key string) (a accepted, ok bool) {
	var at ballot
	for range 4 {
		at = ballot{at.count + 1000, 1 + p.w.rnd.Uint64N(ballotEnd)}
		t := tally{of: len(from)}
		for _, a := range from {
			v := vote{err: errBusy}
			got := vote{}
			b := p.box(&member{acceptor: a})
			if p.ask(b, func() { got = b.vote(memoryOf(a), r, prepares(key, at)) }) {
				v = got
			}
			switch {
			case v.err != nil:
			case v.refused:
				t.higher = append(t.higher, v.higher)
			default:
				t.yes = append(t.yes, v)
			}
		}
		if len(t.yes) >= enough {
			a := latest(t.yes)
			a.ballot = at
			return a, true
		}
		if higher := t.toExceed(enough); at.less(higher) {
			at = higher
		}
	}
	return a, false
}

// dump returns what so many of some have.
func (p *process) dump(r *roster, from []*acceptor, enough int) (dumps []dump) {
	p.w.rnd.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	for _, a := range from {
		b, memory := p.box(&member{acceptor: a}), memoryOf(a)
		d, all := dump{kept: make(map[string]kept)}, true
		for _, key := range modelled {
			all = all && p.ask(b, func() {
				if k, has := b.now.kept[key]; has && b.now.memory == memory {
					d.kept[key] = k
				}
			})
		}
		present := vote{err: errBusy}
		if all && p.ask(b, func() { present = b.vote(memory, r, func(d *disk) vote { return vote{higher: d.floor} }) }) && (present.err == nil || p.w.flaw == "untold") {
			d.floor = present.higher
			if dumps = append(dumps, d); len(dumps) == enough {
				return dumps
			}
		}
	}
	return nil
}

// isGone is gone in the scripts. Instead of an hour, it waits for all to end what they did when it went.
func (w *world) isGone(k kept) bool {
	return slices.Min(w.began) > w.born[k.accepted.content.id] && !k.accepted.content.id.IsZero() && k.accepted.content.version.IsZero() && k.promised == k.accepted.ballot.next()
}

// collect is collectOnce.
func (p *process) collect() {
	all := p.survey(func([]member) bool { return false })
	if r := rosterOf(all); r != nil {
		p.join(r, all)
	}
	r := p.r
	if len(p.seats) < len(r.seats) && p.w.flaw != "collect" {
		return
	}
	var at ballot
	seated := p.shuffled()
	seated = slices.DeleteFunc(seated, func(b *box) bool { return p.seats[b] == "" })
	for i, b := range seated {
		memory, gone := p.seats[b], ballot{}
		if !p.ask(b, func() {
			b.vote(memory, r, func(d *disk) vote {
				if k := d.kept["r"]; p.w.isGone(k) {
					gone = k.accepted.ballot
				}
				return vote{}
			})
		}) {
			return
		}
		if i == 0 {
			at = gone
		}
		if gone == (ballot{}) || gone != at && p.w.flaw != "collect" {
			p.rewrite("r")
			return
		}
	}
	for _, b := range seated {
		memory := p.seats[b]
		if !p.ask(b, func() {
			b.vote(memory, r, func(d *disk) vote {
				k, has := d.kept["r"]
				if !has || !p.w.isGone(k) || k.accepted.ballot != at {
					return vote{}
				}
				p.w.saw(k.accepted.content, -1)
				p.w.forgot = true
				if d.floor.less(k.promised) && p.w.flaw != "below" {
					d.floor = k.promised
				}
				delete(d.kept, "r")
				return vote{}
			})
		}) {
			return
		}
	}
}

// What may happen to a server.
const (
	isAway = iota
	isBack
	forgets
	goesBack
)

func (w *world) meddle() {
	b := w.boxes[w.rnd.IntN(len(w.boxes))]
	switch w.pick(w.meddles...) {
	case isAway:
		b.away = w.one(2)
	case isBack:
		b.away = false
	case forgets:
		if latest := w.latest(); latest != nil && w.terms <= latest.term {
			w.forgets(b, latest)
		}
	case goesBack: // with the file of before
		if _, seated := w.latest().seatOf(b.now.memory); b.old != nil && !seated {
			b.now, b.old = *b.old, nil
		}
	}
}

// forgets has a server forget, while a majority of others votes, or will when one of them is filled.
func (w *world) forgets(b *box, latest *roster) {
	votes := 0
	var others []member
	for _, o := range w.boxes {
		if o == b {
			continue
		}
		others = append(others, o.member())
		if _, seated := latest.seatOf(o.now.memory); seated && o.now.state == "v" && o.now.roster.term == latest.term {
			votes++
		}
	}
	if votes >= latest.majority() || isHalfway(latest, others) {
		was := b.now
		b.fresh()
		b.old = &was
	}
}

// latest is the latest roster that a server knows.
func (w *world) latest() (r *roster) {
	for _, b := range w.boxes {
		if b.now.state == "v" && (r == nil || r.term < b.now.roster.term) {
			r = b.now.roster
		}
	}
	return r
}

// seated are the servers of the latest roster.
func (w *world) seated() (all []*box) {
	for _, b := range w.boxes {
		if latest := w.latest(); latest != nil {
			if _, has := latest.seatOf(b.now.memory); has {
				all = append(all, b)
			}
		}
	}
	return all
}

// newProcess returns a process that names some of the servers.
func (w *world) newProcess(actor int, wait func(over bool)) *process {
	p := &process{w: w, actor: actor, wait: wait, seats: make(map[*box]string), promises: make(map[string]promised), q: &Store{}}
	if p.boxes = w.only; p.boxes == nil {
		p.boxes = w.boxes
	}
	p.boxes = p.shuffled()[:min(w.least+w.rnd.IntN(w.names), len(p.boxes))]
	for _, b := range p.boxes {
		p.q.all = append(p.q.all, &acceptor{Server: &server.Server{Address: b.address}})
	}
	return p
}

// live is what a process does.
func (p *process) live() {
	reforms := p.actor < p.w.reforms
	for p.w.began[p.actor] = p.w.step; !p.opens(); {
		p.wait(true)
	}
	for range 1 + p.w.rnd.IntN(p.w.lasts) {
		p.w.began[p.actor] = p.w.step
		switch {
		case reforms:
			p.w.began[p.actor] = math.MaxInt // what it knows of a register ends with the server that it fills
			if p.w.one(3) {
				p.reform(p.q.heals)
			} else {
				p.reform(p.q.reforms)
			}
		case p.w.one(p.w.collects):
			p.collect()
		default:
			if now, ok := p.read(); ok {
				p.swap(now)
			}
		}
		if p.w.one(10) {
			p.recall()
		}
		p.wait(true)
	}
}

// walk is one random order, and returns what went wrong.
func walk(seed uint64, flaw string) *world {
	w := newWorld(seed, flaw)
	defer func() {
		for _, a := range w.actors {
			a.end()
		}
	}()
	switch {
	case !w.directed:
		w.interleave()
	case w.plot == 1:
		w.sleep()
	case w.plot == 2:
		w.wearOut()
	case w.plot == 3:
		w.race()
	case w.plot == 4:
		w.giveUp()
	case w.plot == 5:
		w.goHalfway()
	default:
		w.takeTurns()
	}
	for _, c := range w.chain { // what was forgotten cannot be told from what was never there: therefore the hour before
		if w.denied[c.id] && !w.forgot && w.wrong == "" {
			w.wrong = fmt.Sprintf("%x was denied, and stood there", c.id)
		}
	}
	return w
}

func (w *world) pick(of ...int) int { return of[w.rnd.IntN(len(of))] }

func newWorld(seed uint64, flaw string) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 1)), flaw: flaw, rosters: make(map[uint64]string), denied: make(map[register.Version]bool), born: make(map[register.Version]int)}
	w.directed = seed%2 == 1
	w.loss, w.least, w.names, w.lasts = w.pick(20, 60, 300), minServers, w.pick(1, 1, 1, 2, 3), 20 // a group that has become larger stays so
	w.reforms, w.collects = w.pick(2, 4), w.pick(3, 20)
	servers, seats, actors := w.pick(4, 4, 5), minServers, 6
	w.meddles = []int{isAway, isBack, forgets, goesBack}
	if w.directed {
		w.loss, w.lasts, actors = w.pick(60, 1000), 3, 5
		w.reforms, w.collects, w.sleepers = w.pick(1, 2, 3), w.pick(2, 4), actors
		if w.plot = w.pick(0, 1, 2, 3); seed%20 == 19 {
			w.plot = 4
		} else if seed%20 == 9 {
			w.plot = 5
		}
		switch w.plot {
		case 4, 5:
			servers, w.least, w.names, w.loss, actors = 5, 4, 1, 10_000, 1
		case 1, 3:
			servers, w.names, w.loss, actors = 4, 1, 10_000, 1
		case 2:
			servers, seats, w.least, w.names, w.loss, actors = 5, 5, 5, 1, 10_000, 1
		default:
			if w.one(2) {
				servers, seats, w.least, w.names = w.pick(5, 6), 5, 4, 3
			}
		}
	}
	first := &roster{group: strings.Repeat("g", groupSize), term: 1}
	for i := range servers {
		b := &box{address: string(rune('a' + i))}
		b.fresh()
		w.boxes = append(w.boxes, b)
		if i < seats {
			first.seats = append(first.seats, listed{memory: b.now.memory, since: 1, address: b.address})
			b.now.state, b.now.roster = "v", first
		}
	}
	w.began = make([]int, actors)
	for i := range actors {
		w.actors = append(w.actors, w.newActor(i))
	}
	return w
}

// An actor is one process after another.
type actor struct {
	step    func() (over, more bool) // it does one request, and says whether an operation is over
	end     func()
	stopped int // for how much longer
}

func (w *world) newActor(i int) *actor {
	return newActor(func(wait func(over bool)) {
		for {
			w.newProcess(i, wait).live()
		}
	})
}

func newActor(do func(wait func(over bool))) *actor {
	type ended struct{}
	a := &actor{}
	a.step, a.end = iter.Pull(func(yield func(over bool) bool) {
		defer func() {
			if e := recover(); e != nil && e != (ended{}) {
				panic(e)
			}
		}()
		do(func(over bool) {
			if !yield(over) {
				panic(ended{})
			}
		})
	})
	return a
}

// begins has a new process do something, and returns it after some steps.
func (w *world) begins(steps int, do func(*process)) *actor {
	a, _ := w.enters(do)
	w.goesOn(a, steps)
	return a
}

func (w *world) enters(do func(*process)) (*actor, *process) {
	var p *process
	a := newActor(func(wait func(over bool)) {
		if p.wait = wait; p.opens() {
			do(p)
		}
	})
	p = w.newProcess(0, nil)
	w.actors = append(w.actors, a)
	return a, p
}

// proposes has a new process swap, until it has sent so many requests to accept that.
func (w *world) proposes(accepts int) *actor {
	a, p := w.enters(swaps)
	for i := 0; i < 100 && p.accepts <= accepts; i++ {
		w.goesOn(a, 1)
	}
	return a
}

func (w *world) does(do func(*process)) { w.begins(1000, do) }

func (w *world) goesOn(a *actor, steps int) {
	for more := true; more && steps > 0 && w.wrong == ""; steps-- {
		_, more = a.step()
		w.step++
		w.began[0] = w.step
	}
}

func swaps(p *process) {
	if now, ok := p.read(); ok {
		p.swap(now)
	}
}

// without takes a server away while others do something.
func (w *world) without(do func()) {
	b := w.boxes[w.rnd.IntN(len(w.boxes))]
	b.away = true
	do()
	b.away = false
}

// sleep has somebody stopped within a reform of his, while others reform, and one of those is stopped as well.
func (w *world) sleep() {
	reforms := func(p *process) { p.reform(p.q.reforms) }
	several := func() {
		for range 1 + w.rnd.IntN(3) {
			w.does(swaps)
		}
	}
	for range 4 {
		w.names = w.pick(1, 2)
		first := w.begins(w.rnd.IntN(20), reforms)
		w.names = 1
		w.does(reforms)
		w.without(several)
		second := w.begins(w.rnd.IntN(30), reforms)
		w.goesOn(first, 1000)
		w.without(several)
		w.goesOn(second, 1000)
		w.without(several)
	}
}

// race has two stopped within their swaps, while others reform.
func (w *world) race() {
	for range 6 {
		one := w.proposes(w.rnd.IntN(3))
		other := w.proposes(w.rnd.IntN(2))
		w.does(func(p *process) { p.reform(p.q.reforms) })
		w.without(func() { w.does(func(p *process) { p.read() }) })
		w.without(func() { w.goesOn(one, 1000) })
		w.without(func() { w.goesOn(other, 1000) })
		w.does(swaps)
	}
}

// giveUp has somebody stopped who reforms, when he has decided or has told some. Then a server forgets, or those that are named now are
// others, and so it comes to something else than what he has decided. He wakes when some swap.
func (w *world) giveUp() {
	reforms := func(p *process) { p.reform(p.q.reforms) }
	swap := func() { w.without(func() { w.does(swaps) }) }
	for range 4 {
		w.least = w.pick(3, 4)
		w.does(swaps)
		first := w.begins(10+w.rnd.IntN(30), reforms)
		if latest := w.latest(); latest != nil && w.one(2) {
			w.forgets(w.boxes[w.rnd.IntN(len(w.boxes))], latest)
		}
		w.least = w.pick(3, 4, 5)
		second := w.begins(10+w.rnd.IntN(40), reforms)
		w.least = 5
		w.goesOn(first, 1+w.rnd.IntN(60))
		swap()
		w.goesOn(second, 1000)
		swap()
		w.goesOn(first, 1000)
		w.without(func() { w.does(func(p *process) { p.read() }) })
	}
}

// goHalfway has somebody come to an end who reforms, when he has decided or has told some. Then a server forgets that the group could do
// without before. Whoever comes next names all, and has the group go on.
func (w *world) goHalfway() {
	swap := func() { w.without(func() { w.does(swaps) }) }
	for range 4 {
		w.least = w.pick(3, 4)
		w.does(swaps)
		swap()
		old := w.seated()
		first := w.begins(10+w.rnd.IntN(30), func(p *process) { p.reform(p.q.reforms) })
		b := w.boxes[w.rnd.IntN(len(w.boxes))]
		if latest := w.latest(); w.one(2) || latest == nil {
			b.away = true
		} else {
			w.forgets(b, latest)
		}
		w.least = 5
		second := w.begins(w.rnd.IntN(80), func(p *process) { p.reform(p.q.heals) })
		b.away = false
		w.only = old
		swap()
		w.only = nil
		w.goesOn(second, w.pick(0, 1000))
		swap()
		goes := false
		for range 3 {
			w.does(func(p *process) {
				p.reform(p.q.heals)
				if p.recall() {
					_, ok := p.read()
					goes = goes || ok
				}
			})
		}
		if !goes && w.wrong == "" && (w.flaw == "" || w.flaw == "only") {
			w.wrong = "nobody goes on"
		}
		swap()
		w.goesOn(first, 1000)
		swap()
		w.without(func() { w.does(func(p *process) { p.read() }) })
	}
}

// wearOut has one server after the other forget and be healed, after a collection that came to an end halfway.
func (w *world) wearOut() {
	heals := func(p *process) { p.reform(p.q.heals) }
	for range 4 {
		for range 6 { // until it is deleted
			if w.does(swaps); len(w.chain) > 0 && w.chain[len(w.chain)-1].version.IsZero() {
				break
			}
		}
		w.does((*process).collect)
		w.begins(12+w.rnd.IntN(12), (*process).collect)
		w.meddles = []int{forgets}
		w.without(func() {
			for range 5 {
				w.meddle()
				w.does(heals)
			}
			w.does(swaps)
		})
		w.without(func() { w.does(swaps) })
		w.does(heals)
	}
}

// interleave has each step be somebody's.
func (w *world) interleave() {
	meddling, stops, burst, i := w.pick(30, 100, 300), w.pick(50, 200), w.pick(1, 10, 50), 0
	for ; w.step < 3000 && w.wrong == ""; w.step++ {
		if w.one(burst) {
			i = w.rnd.IntN(len(w.actors))
		}
		switch {
		case w.one(meddling):
			w.meddle()
		case w.one(stops):
			w.actors[i].stopped = w.step + w.rnd.IntN(w.pick(50, 1000))
			i = w.rnd.IntN(len(w.actors))
		case w.one(20):
			w.deliver()
		}
		if w.actors[i].stopped <= w.step {
			w.actors[i].step()
		} else {
			i = w.rnd.IntN(len(w.actors))
		}
	}
}

// takeTurns has each operation be somebody's. Some are stopped within one, and go on after a few others.
func (w *world) takeTurns() {
	meddling, stops, sleep := w.pick(2, 4, 8), w.pick(2, 4, 10), w.pick(3, 10, 20)
	for turn := 0; turn < 150 && w.wrong == ""; turn++ {
		if w.one(meddling) {
			w.meddle()
		}
		if w.one(4) {
			w.deliver()
		}
		i := w.rnd.IntN(len(w.actors))
		a := w.actors[i]
		if a.stopped > turn {
			continue
		}
		most, stop := 300, i < w.sleepers && w.one(stops)
		if stop {
			most = 1 + w.rnd.IntN(w.pick(8, 30, 60))
		}
		over := false
		for ; most > 0 && !over && w.wrong == ""; most-- {
			over, _ = a.step()
			w.step++
		}
		if stop && !over {
			a.stopped = turn + 1 + w.rnd.IntN(sleep)
		}
	}
}

// deliver has a request arrive that was on its way.
func (w *world) deliver() {
	if len(w.later) == 0 {
		return
	}
	n := w.rnd.IntN(len(w.later))
	do := w.later[n]
	w.later = slices.Delete(w.later, n, n+1)
	do()
}

func TestWhatAGroupAgreesOnIsOneChain(t *testing.T) {
	begun, walks, swaps, terms, given := time.Now(), uint64(0), 0, uint64(0), 0
	for ; time.Since(begun) < 5*time.Second; walks++ {
		w := walk(walks, "")
		if swaps, terms, given = swaps+w.swaps, terms+w.terms, given+w.given; w.wrong != "" {
			t.Fatalf("seed %d: %s", walks, w.wrong)
		}
	}
	t.Logf("%d walks, %d swaps, %d terms, %d of them instead of others", walks, swaps, terms, given)
}

// The model finds what it is for. Each flaw was found by that seed; if the model changes, another one may be the first.
func TestTheModelOfAGroupFindsFlaws(t *testing.T) {
	for flaw, seed := range map[string]uint64{
		"empty":   0,     // a server is filled with nothing
		"collect": 885,   // registers are forgotten though a server says something else
		"below":   725,   // what was forgotten is made again below what others have
		"vain":    514,   // what was accepted in an earlier term counts as refused
		"open":    6427,  // a server is filled with what may not count
		"between": 10985, // the same, if the other ballot is lower than the one that comes next
		"wakes":   2033,  // who wakes two terms later has a server vote that was not filled
		"few":     789,   // what is to be given to a server is asked of one too few
		"untold":  889,   // it is asked of one that may still agree with others by the roster before
		"only":    49,    // it is asked of those alone that are still listed, and nobody goes on
		"floor":   1697,  // a server that is filled does not know below what nobody may begin
	} {
		begun, from := time.Now(), seed
		for walk(seed, flaw).wrong == "" {
			if seed++; time.Since(begun) > time.Minute {
				t.Errorf("%s: not found from seed %d to %d", flaw, from, seed)
				break
			}
		}
		t.Logf("%s: found by seed %d", flaw, seed)
	}
}
