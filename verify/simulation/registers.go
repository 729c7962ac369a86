package simulation

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// registers is a far side that can only compare and swap. Everything else is done by coord/register, of which each client
// has a driver of its own. Notes are told here and not by the store's own listeners, so that chance does not decide which of
// two listeners hears first.
type registers struct {
	network *scheduler
	ttl     time.Duration
	clock   storeClock
	store   *memory.Store
	sure    bool             // the store says that no note is lost unsaid, which is so here
	admin   *register.Driver // reaches the store past the network
	janitor driver.Driver    // no client's; see Tidy

	mu       sync.Mutex
	sessions map[string]*owned // by id, including those that have ended
	ears     []*ear            // in the order in which they came
	shown    map[string]shown  // by line
	refusing string            // a link whose next request is denied
}

// owned is a session as the store saw it.
type owned struct {
	link    string
	number  int           // among all sessions
	renewed time.Time     // when its register was swapped last; zero: it is gone
	stands  time.Duration // for how long it says that it stands if it is not
	taken   time.Time     // when an operator ended it
}

// shown is a line as it was when the world last looked.
type shown struct {
	version register.Version
	nodes   []driver.Node
}

const (
	lineKey    = "line/"
	sessionKey = "session/"

	noteHead = 48 // a proof and a key
)

func newRegisters(network *scheduler, ttl time.Duration, rate float64, sure bool) *registers {
	// A driver on a store allows for clocks that differ by one part in a hundred.
	f := &registers{network: network, ttl: ttl, sure: sure, clock: storeClock{began: time.Now(), rate: 1 + (rate-1)/6}, store: memory.NewStore(), sessions: make(map[string]*owned), shown: make(map[string]shown)}
	f.admin = register.New(&far{f, ""}, register.WithTTL(ttl))
	return f
}

func (f *registers) NewDriver(link string) driver.Driver {
	s := &near{&far{f, link}}
	if f.sure {
		return register.New(surely{s}, register.WithTTL(f.ttl))
	}
	return register.New(s, register.WithTTL(f.ttl))
}

func (f *registers) Nodes(line string) []driver.Node {
	it, err := f.store.Read(context.Background(), lineKey+line)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	known := f.shown[line]
	f.mu.Unlock()
	if known.version != it.Version {
		known.version = it.Version
		if known.nodes, err = f.admin.Line(context.Background(), line); err != nil {
			panic(err)
		}
		f.mu.Lock()
		f.shown[line] = known
		f.mu.Unlock()
	}
	return slices.Clone(known.nodes)
}

func (f *registers) Names(prefix string) []string {
	names, err := f.admin.Lines(context.Background(), prefix)
	if err != nil {
		panic(err)
	}
	return names
}

func sessionOf(node string) string {
	id, _, _ := strings.Cut(node, "-")
	return id
}

func (f *registers) Expiry(node string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[sessionOf(node)]; s != nil && !s.renewed.IsZero() {
		return s.renewed.Add(f.ttl)
	}
	return time.Time{}
}

func (f *registers) LinkOf(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[sessionOf(node)]; s != nil && !s.renewed.IsZero() {
		return s.link
	}
	return ""
}

func (f *registers) Taken(node string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[sessionOf(node)]; s != nil {
		return s.taken
	}
	return time.Time{}
}

// Watches counts all listeners except the one that each session has.
func (f *registers) Watches() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, e := range f.ears {
		id, own := strings.CutPrefix(e.topic, sessionKey)
		if s := f.sessions[id]; !own || s == nil || s.renewed.IsZero() {
			n++
		}
	}
	return n
}

// Remains lists the registers that belong to sessions that have ended, and those of sessions that nobody renews.
func (f *registers) Remains() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.store.List(context.Background(), "", func(it register.Item) bool {
		_, name, _ := strings.Cut(it.Key, "/")
		s := f.sessions[sessionOf(name)]
		switch {
		case strings.HasPrefix(it.Key, lineKey), name == "":
		case s == nil, s.renewed.IsZero(), time.Since(s.renewed) > s.stands:
			all = append(all, it.Key)
		}
		return true
	})
	if err != nil {
		panic(err)
	}
	return all
}

func (f *registers) Remove(node string) bool {
	for _, name := range f.Names("") {
		for _, n := range f.Nodes(name) {
			if n.ID == node {
				return f.admin.Remove(context.Background(), n) == nil
			}
		}
	}
	return false
}

// ExpireLink ends the sessions of a link, as an operator would.
func (f *registers) ExpireLink(link string) {
	f.mu.Lock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(f.sessions)) {
		if s := f.sessions[id]; s.link == link && !s.renewed.IsZero() {
			s.taken = time.Now()
			ids = append(ids, id)
		}
	}
	f.mu.Unlock()
	for _, id := range ids {
		if err := f.admin.EndSession(context.Background(), id); err != nil {
			panic(err)
		}
	}
}

// Refuse has the next request of a link denied.
func (f *registers) Refuse(link string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusing = link
}

// Reconnect tells all listeners of a link that they may have missed something.
func (f *registers) Reconnect(link string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.ears {
		if e.link == link {
			f.tell(e, nil, nil)
		}
	}
}

// lie has a stranger tell the owner of a node that its turn has come (T), that it should look (L), that it was removed (R),
// or that its session is over (X). It knows all that may be read, and has no key that stands in the line.
func (f *registers) lie(n driver.Node, what byte) {
	var number uint64
	id, rest, _ := strings.Cut(n.ID, "-")
	fmt.Sscanf(rest, "%d.", &number)
	note := append(binary.AppendUvarint(make([]byte, noteHead), uint64(len(n.Line))), n.Line...)
	note = binary.AppendUvarint(append(binary.AppendUvarint(note, 1<<60), what), number)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.ears {
		if e.topic == sessionKey+id {
			f.tell(e, note, nil)
		}
	}
}

func (*registers) Abandoned(string) bool           { return false }
func (*registers) Guarded(*coord.Hold) func() bool { return nil }
func (*registers) Write(string, []byte)            { panic("sim: nobody writes to a node in a register") }
func (*registers) Strand(string) func()            { panic("sim: a store is one") }
func (*registers) CatchUp(_, _ int) int            { return 0 }

// Tidy opens a session: a client with a session sweeps, and all others may have been closed.
func (f *registers) Tidy() {
	f.janitor = f.NewDriver("janitor")
	if _, err := f.janitor.Open(context.Background()); err != nil {
		panic(err)
	}
}

func (f *registers) Close() {
	f.janitor.Close(context.Background())
	f.admin.Close(context.Background())
}

// ear is a listener.
type ear struct {
	link, topic string
	mu          sync.Mutex
	heard       func(note []byte) // nil: not any more
}

func (e *ear) hear(note []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heard != nil {
		e.heard(note)
	}
}

func (e *ear) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = nil
}

func (e *ear) ended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard == nil
}

// tell sends a note on its way, and says which of its listener's nodes are gone. It needs mu.
func (f *registers) tell(e *ear, note []byte, gone []string) {
	what := "note"
	if note == nil {
		what = "reconnected"
	}
	f.network.tell(e.link, what, func() {
		if !e.ended() {
			for _, node := range gone {
				f.network.hearGone(node)
			}
		}
		e.hear(note)
	})
}

// standing returns who stands in a line before a swap that somebody is told of.
func (f *registers) standing(sw register.Swap) []driver.Node {
	line, ok := strings.CutPrefix(sw.Key, lineKey)
	if !ok {
		return nil
	}
	nodes, err := f.admin.Line(context.Background(), line)
	if err != nil {
		panic(err)
	}
	return nodes
}

// goneIn returns which of the nodes that stood in the line a note tells their session it has lost. A note has a head, the
// line's name, with its length before it, a number, and a letter and a number for each node.
func (f *registers) goneIn(told register.Note, before []driver.Node) (gone []string) {
	id, own := strings.CutPrefix(told.Topic, sessionKey)
	note := told.Text[min(noteHead, len(told.Text)):]
	size, width := binary.Uvarint(note)
	if !own || width <= 0 || uint64(len(note)-width) < size {
		return nil
	}
	note = note[width+int(size):]
	_, width = binary.Uvarint(note)
	for note = note[max(width, 0):]; len(note) > 0; {
		n, width := binary.Uvarint(note[1:])
		for _, node := range before {
			if note[0] == 'R' && strings.HasPrefix(node.ID, fmt.Sprintf("%s-%d.", id, n)) {
				node.Token <<= coord.TurnBits
				gone = append(gone, incarnation(node))
			}
		}
		note = note[1+max(width, 0):]
	}
	return gone
}

// far is the store itself, with no network in between.
type far struct {
	*registers
	link string // who asks; "": the world
}

func (s *far) Read(ctx context.Context, key string) (register.Item, error) {
	it, err := s.store.Read(ctx, key)
	return s.clock.date(it), err
}

func (s *far) Swap(ctx context.Context, sw register.Swap) (register.Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, err := s.store.Read(ctx, sw.Key)
	if err != nil {
		return was, err
	}
	notes := sw.Notes
	sw.Notes = nil
	var before []driver.Node
	if len(notes) > 0 {
		before = s.standing(sw)
	}
	it, err := s.store.Swap(ctx, sw)
	it = s.clock.date(it)
	if err != nil || was.Version != sw.Old {
		return it, err
	}
	if id, ok := strings.CutPrefix(sw.Key, sessionKey); ok {
		if s.sessions[id] == nil {
			s.sessions[id] = &owned{link: s.link, number: len(s.sessions)}
		}
		s.sessions[id].renewed, s.sessions[id].stands = time.Now(), standsFor(sw.Value)
		if sw.Next.IsZero() {
			s.sessions[id].renewed = time.Time{}
		}
	}
	for _, n := range notes {
		gone := s.goneIn(n, before)
		for _, e := range s.ears {
			if e.topic == n.Topic {
				s.tell(e, n.Text, gone)
			}
		}
	}
	return it, nil
}

// standsFor is what a session's register says after its first byte.
func standsFor(session []byte) time.Duration {
	ms, _ := binary.Uvarint(session[min(1, len(session)):])
	return time.Duration(ms) * time.Millisecond
}

func (s *far) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	all, err := s.list(ctx, prefix)
	for _, it := range all {
		if !yield(it) {
			break
		}
	}
	return err
}

func (s *far) list(ctx context.Context, prefix string) (all []register.Item, err error) {
	err = s.store.List(ctx, prefix, func(it register.Item) bool {
		all = append(all, s.clock.date(it))
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(all, s.compare)
	return all, err
}

// compare puts the registers of sessions in the order in which the sessions began, since their names are random. It needs
// mu.
func (f *registers) compare(a, b register.Item) int {
	sort := func(key string) string {
		s, _, _ := strings.Cut(key, "/")
		return s
	}
	number := func(key string) int {
		_, name, _ := strings.Cut(key, "/")
		if s := f.sessions[sessionOf(name)]; s != nil {
			return s.number
		}
		return -1
	}
	return cmp.Or(cmp.Compare(sort(a.Key), sort(b.Key)), cmp.Compare(number(a.Key), number(b.Key)), cmp.Compare(a.Key, b.Key))
}

func (s *far) Listen(_ context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	e := &ear{link: s.link, topic: topic, heard: hear}
	s.listen(e)
	return func() { s.forget(e) }, nil
}

func (s *far) listen(e *ear) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.ended() { // the caller may have given up meanwhile
		s.ears = append(s.ears, e)
	}
}

func (s *far) forget(e *ear) {
	e.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ears = slices.DeleteFunc(s.ears, func(other *ear) bool { return other == e })
}

func (s *far) Memory(ctx context.Context) (register.Memory, error) { return s.store.Memory(ctx) }
func (s *far) Strength() driver.Strength                           { return s.store.Strength() }
func (s *far) Close() error                                        { return nil }

// surely is a near store that loses no note unsaid.
type surely struct{ *near }

func (surely) LosesNoNoteUnsaid() {}

// near is the store as a client sees it, at the other end of the scheduler's link.
type near struct{ far *far }

// ask carries a request to the store, and the answer back.
func ask[T any](ctx context.Context, s *near, op string, call func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	type answer struct {
		value T
		err   error
	}
	got := new(answer)       // so that a late answer is written where nobody reads it any more
	var answered atomic.Bool // a request may arrive twice: what counts is the first answer
	err := s.far.network.ask(ctx, s.far.link, op, func() {
		var a answer
		if a.err = s.far.denied(); a.err == nil {
			a.value, a.err = call()
		}
		if answered.CompareAndSwap(false, true) {
			*got = a
		}
	})
	if err != nil {
		return none, err
	}
	return got.value, got.err
}

// denied returns an error if this is the request to deny.
func (s *far) denied() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing != s.link {
		return nil
	}
	s.refusing = ""
	return driver.ErrDenied
}

// about describes a key without what is random in it: a session is given by its number.
func (f *registers) about(key string) string {
	sort, name, _ := strings.Cut(key, "/")
	switch sort {
	case "line", "first":
		return strings.TrimSuffix(key, "/")
	case "session", "data", "suspect":
		f.mu.Lock()
		defer f.mu.Unlock()
		if s := f.sessions[sessionOf(name)]; s != nil {
			return fmt.Sprintf("%s/%d", sort, s.number)
		}
	}
	return sort
}

func (s *near) Read(ctx context.Context, key string) (register.Item, error) {
	return ask(ctx, s, "read "+s.far.about(key), func() (register.Item, error) {
		return s.far.Read(context.Background(), key)
	})
}

func (s *near) Swap(ctx context.Context, sw register.Swap) (register.Item, error) {
	what := "swap "
	switch {
	case sw.Old.IsZero():
		what = "make "
	case sw.Next.IsZero():
		what = "delete "
	}
	return ask(ctx, s, what+s.far.about(sw.Key), func() (register.Item, error) {
		return s.far.Swap(context.Background(), sw)
	})
}

func (s *near) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	all, err := ask(ctx, s, "list "+s.far.about(prefix), func() ([]register.Item, error) {
		return s.far.list(context.Background(), prefix)
	})
	if err != nil {
		return err
	}
	for _, it := range all {
		if !yield(it) {
			break
		}
	}
	return nil
}

func (s *near) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	e := &ear{link: s.far.link, topic: topic, heard: hear}
	if _, err := ask(ctx, s, "listen "+s.far.about(topic), func() (struct{}, error) {
		s.far.listen(e)
		return struct{}{}, nil
	}); err != nil {
		s.far.forget(e)
		return nil, err
	}
	return func() { s.far.forget(e) }, nil
}

func (s *near) Memory(ctx context.Context) (register.Memory, error) {
	return ask(ctx, s, "memory", func() (register.Memory, error) { return s.far.Memory(context.Background()) })
}

func (s *near) Strength() driver.Strength { return s.far.Strength() }
func (s *near) Close() error              { return nil }
