package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// scheduler is the network between drivers and service. Nothing arrives until step picks it.
type scheduler struct {
	profile Profile

	mu    sync.Mutex
	links map[string]*link
	late  []parcel             // requests reported lost that the service will still see
	gone  map[string]time.Time // nodes whose owner has heard that they are gone, and when
	told  map[string]int       // for each link, how many answers have come
	last  map[string]string    // and what the last of them answered
	open  bool                 // everything arrives at once: the run is over, or see swiftly
}

// link is what is parked between one driver and the service.
type link struct {
	name    string
	out, in []parcel
	ordered int // how many of out are in their final order
	frozen  direction
	thaw    time.Time
	silence time.Duration  // how long nothing may reach the service after the thaw
	held    bool           // what comes to the driver is held back
	posted  map[string]int // how many of each kind, or in each stream
}

type direction int

const (
	toService direction = 1 << iota
	toDriver
)

// parcel is something that is parked.
type parcel struct {
	link   string
	conn   int    // of several connections of a link: each keeps its order
	stream string // "": it belongs to none. What belongs to one arrives in order
	place  int    // in the stream
	what   string
	n      int // its number among those of its kind
	dir    direction
	arrive func()
	lose   func() // nobody will hear of it
	mutely func() // it arrives, and nobody hears of that; nil where there is no such thing
}

func (p parcel) String() string {
	arrow := "->"
	if p.dir == toDriver {
		arrow = "<-"
	}
	if p.stream != "" {
		return fmt.Sprintf("%s %s %s: %s #%d", p.link, arrow, p.stream, p.what, p.place)
	}
	return fmt.Sprintf("%s %s %s #%d", p.link, arrow, p.what, p.n)
}

func (p parcel) isEvent() bool { return strings.HasPrefix(p.what, "event ") }

// moves reports whether a parcel may concern a line. Parcels that concern none are always under way.
func (p parcel) moves() bool {
	if p.conn > 0 {
		return p.what != "ping" && !strings.HasPrefix(p.what, "multi check")
	}
	for _, upkeep := range []string{"swap session/", "read session/", "read sweeper", "swap sweeper", "list ", "renew "} {
		if strings.HasPrefix(p.what, upkeep) {
			return false
		}
	}
	return true
}

// late names a request that arrives after its sender has heard that it is lost.
func (p parcel) late() parcel {
	p.what += " (late)"
	return p
}

func (p parcel) compare(q parcel) int {
	return cmp.Or(cmp.Compare(p.link, q.link), cmp.Compare(p.dir, q.dir),
		cmp.Compare(p.stream, q.stream), cmp.Compare(p.place, q.place), cmp.Compare(p.what, q.what), cmp.Compare(p.n, q.n))
}

var errCut = errors.New("sim: connection lost")

func newScheduler(p Profile) *scheduler {
	return &scheduler{profile: p, links: make(map[string]*link), gone: make(map[string]time.Time), told: make(map[string]int), last: make(map[string]string)}
}

func (s *scheduler) link(name string) *link {
	l := s.links[name]
	if l == nil {
		l = &link{name: name, posted: make(map[string]int)}
		s.links[name] = l
	}
	return l
}

// number counts what is posted.
func (l *link) number(sort string) int {
	l.posted[sort]++
	return l.posted[sort]
}

// sent returns how many requests of a kind were sent over a link.
func (s *scheduler) sent(link, what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link(link).posted[fmt.Sprint(what, toService)]
}

// ask parks a request and waits for the answer. When the request arrives, apply is called.
func (s *scheduler) ask(ctx context.Context, link, op string, apply func()) error {
	answered := make(chan error, 1)
	answer := func(err error) {
		select {
		case answered <- err:
		default: // it has already been told
		}
	}
	p := &parcel{link: link, what: op, dir: toService, lose: func() { answer(errCut) }}
	p.arrive = func() {
		apply()
		back := *p
		back.dir = toDriver
		back.arrive = func() {
			s.answered(link, op)
			answer(nil)
		}
		s.post(&back)
	}
	s.post(p)
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// post parks a parcel, and numbers it unless it has a number.
func (s *scheduler) post(p *parcel) {
	s.mu.Lock()
	if s.open {
		s.mu.Unlock()
		p.arrive()
		return
	}
	defer s.mu.Unlock()
	l := s.link(p.link)
	if p.stream != "" {
		p.place = l.number(fmt.Sprint("stream ", p.stream, p.dir))
	} else if p.n == 0 {
		p.n = l.number(fmt.Sprint(p.what, p.dir))
	}
	if p.dir == toService {
		l.out = append(l.out, *p)
	} else {
		l.in = append(l.in, *p)
	}
}

// answered records that an answer has come.
func (s *scheduler) answered(link, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[link]++
	s.last[link] = what
}

func (s *scheduler) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// heard returns how many answers have come over a link.
func (s *scheduler) heard(link string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[link]
}

// lastAnswer returns which request the last answer over a link was for.
func (s *scheduler) lastAnswer(link string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[link]
}

// tell parks an event. When it arrives, deliver is called.
func (s *scheduler) tell(link, what string, deliver func()) {
	s.post(&parcel{link: link, what: "event " + what, dir: toDriver, lose: func() {}, arrive: deliver})
}

// hearGone records that the owner of a node hears that it is gone.
func (s *scheduler) hearGone(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[id] = time.Now()
}

// forgetGone forgets what hearGone was told, when nodes that had gone may come back.
func (s *scheduler) forgetGone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.gone)
}

// heardGone returns when the owner of a node heard that it is gone; zero: it has not.
func (s *scheduler) heardGone(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone[id]
}

// ready returns what may arrive next, in an order that does not depend on when it was parked. On ZooKeeper each connection
// keeps its order, on registers the notes keep theirs, and on etcd each stream does.
func (s *scheduler) ready() []parcel {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []parcel
	for _, l := range s.links {
		if !l.thaw.IsZero() && !time.Now().Before(l.thaw) {
			l.frozen, l.thaw = 0, time.Time{}
			if l.silence > 0 {
				l.frozen, l.thaw, l.silence = toService, time.Now().Add(l.silence), 0
			}
		}
		// What was sent since the last time was sent at once: it must not matter who came first.
		if s.profile != ZooKeeper {
			slices.SortFunc(l.out[l.ordered:], parcel.compare)
		}
		l.ordered = len(l.out)
		for dir, queue := range map[direction][]parcel{toService: l.out, toDriver: l.in} {
			if l.frozen&dir == 0 && !(l.held && dir == toDriver) {
				all = append(all, s.profile.foremost(queue)...)
			}
		}
	}
	all = append(all, s.late...)
	slices.SortFunc(all, parcel.compare)
	return all
}

// foremost returns those of a queue that may arrive next.
func (p Profile) foremost(queue []parcel) (next []parcel) {
	conns, streams, told := make(map[int]bool), make(map[string]bool), false // of which something comes first
	for _, q := range queue {
		waits := false
		switch p {
		case ZooKeeper:
			waits, conns[q.conn] = conns[q.conn], true
		case Register: // notes are told in order, and answers may overtake them
			waits, told = q.isEvent() && told, told || q.isEvent()
		default:
			waits, streams[q.stream] = q.stream != "" && streams[q.stream], true
		}
		if !waits {
			next = append(next, q)
		}
	}
	return next
}

// take removes a parcel from where it is parked.
func (s *scheduler) take(p parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := func(q parcel) bool { return p.compare(q) == 0 }
	l := s.link(p.link)
	for _, queue := range []*[]parcel{&l.out, &l.in, &s.late} {
		if i := slices.IndexFunc(*queue, same); i >= 0 {
			*queue = slices.Delete(*queue, i, i+1)
			if queue == &l.out && i < l.ordered {
				l.ordered--
			}
			return
		}
	}
}

// postpone tells a request's sender that it is lost, and keeps it to arrive later.
func (s *scheduler) postpone(p parcel) {
	s.take(p)
	lose := p.lose
	late := p.late()
	late.lose = func() {}
	s.mu.Lock()
	s.late = append(s.late, late)
	s.mu.Unlock()
	lose()
}

// repeat lets a request arrive, and keeps a copy that will arrive later.
func (s *scheduler) repeat(p parcel) {
	s.take(p)
	p.arrive()
	again := p.late()
	again.lose = func() {}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, again)
}

// freeze lets nothing pass for a while; what is sent stays in the link.
func (s *scheduler) freeze(name string, dir direction, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.link(name)
	l.frozen |= dir
	l.thaw = time.Now().Add(d)
}

// hold holds back what is on its way to a driver, until all of it arrives at once.
func (s *scheduler) hold(name string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.link(name)
	l.held = true
	return func() {
		s.mu.Lock()
		in := l.in
		l.in, l.held = nil, false
		s.mu.Unlock()
		for _, p := range in {
			p.arrive()
		}
	}
}

// delayAnswers holds answers back for a while, and then lets nothing through to the service: the last renewal is
// answered late, and no other follows.
func (s *scheduler) delayAnswers(name string, d, silence time.Duration) {
	s.freeze(name, toDriver, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link(name).silence = silence
}

// cut breaks the connection: of the requests in the link the first few arrive, but no answer or event ever comes back.
func (s *scheduler) cut(name string, arrive int) {
	s.mu.Lock()
	l := s.link(name)
	out := l.out
	l.out, l.ordered = nil, 0
	s.mu.Unlock()
	for i, p := range out {
		if i < arrive {
			p.arrive()
		}
	}
	s.mu.Lock()
	in := l.in
	l.in = nil
	s.mu.Unlock()
	for _, p := range append(out, in...) {
		p.lose()
	}
}

// openUp lets everything arrive, now and from now on.
func (s *scheduler) openUp() {
	s.mu.Lock()
	s.open = true
	var all []parcel
	for _, name := range slices.Sorted(maps.Keys(s.links)) {
		l := s.links[name]
		all = append(all, l.out...)
		all = append(all, l.in...)
		l.out, l.in, l.ordered = nil, nil, 0
	}
	all = append(all, s.late...)
	s.late = nil
	s.mu.Unlock()
	for _, p := range all {
		p.arrive()
	}
}

// closeUp ends what openUp began.
func (s *scheduler) closeUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
}

// flows reports whether no link is frozen, or will be.
func (s *scheduler) flows() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if !l.thaw.IsZero() && (time.Now().Before(l.thaw) || l.silence > 0) {
			return false
		}
	}
	return true
}

// heal ends all freezes.
func (s *scheduler) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		l.frozen, l.thaw, l.silence = 0, time.Time{}, 0
	}
}

// queue returns how many parcels are parked on the way to the service.
func (s *scheduler) queue(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.link(name).out)
}
