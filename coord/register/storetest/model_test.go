package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// flaw is something that a store does wrong.
type flaw string

const (
	flawless              flaw = ""
	deleteIgnoresVersion  flaw = "a delete takes away whatever stands there"
	swapIgnoresVersion    flaw = "a swap replaces whatever stands there"
	secondTryConflicts    flaw = "a second try conflicts with the first"
	secondTryApplied      flaw = "a second try is applied once more"
	versionCounts         flaw = "versions are told apart by a count that begins anew with the register"
	valuesCompared        flaw = "a swap goes by a hash of the value, which has no version in it"
	checkedThenSwapped    flaw = "the version is read in one request and the value written in another"
	conflictIsBare        flaw = "a conflict brings nothing"
	conflictIsStale       flaw = "a conflict brings what was read before"
	emptyValueIsNothing   flaw = "a value of no bytes is an empty register"
	readIsStale           flaw = "a read is answered by a replica that lags behind"
	keysFold              flaw = "keys are told apart by letters alone, not by case"
	keysTrimmed           flaw = "spaces at the end of a key do not count"
	keysCut               flaw = "keys are cut at 250 bytes"
	keysNormalized        flaw = "keys are cleaned as paths are"
	valueCut              flaw = "values are cut at 64 KiB"
	valueEndsAtZero       flaw = "values end at a zero byte"
	tooLargeApplied       flaw = "a value that is too large is cut and written, and refused"
	prefixIsPattern       flaw = "the prefix of a list is a pattern"
	prefixCut             flaw = "the prefix of a list is cut at 400 bytes"
	listMissesBusy        flaw = "a list misses what is swapped meanwhile"
	listPaged             flaw = "a list shows its first page"
	listHoldsLock         flaw = "a list holds a lock"
	listGoesOn            flaw = "a list goes on when it is told to end"
	noteEarly             flaw = "a note is told before the swap can be seen"
	noteOnConflict        flaw = "a note is told on a conflict"
	notesShuffled         flaw = "notes overtake each other"
	notesLost             flaw = "notes are lost now and then"
	notesLostWhenSlow     flaw = "a full queue drops notes"
	notesLostInRestart    flaw = "what was told during a reconnect is not missed"
	notesFolded           flaw = "the same note told twice in a swap is told once"
	notesCapped           flaw = "a swap tells 256 notes, and loses the others"
	topicIsPattern        flaw = "a topic is a pattern"
	listenEndsWithContext flaw = "the listening ends with the context of Listen"
	hearsAfterStop        flaw = "stop does not wait for a note that is being told"
	hearsSeveralAtATime   flaw = "notes are told several at a time"
	oneListenerATopic     flaw = "whoever stops listening to a topic unsubscribes all others"
	contextIgnored        flaw = "calls run to a deadline of their own"
	givenUpIsConflict     flaw = "a swap that was given up is called a conflict"
	reservedForEver       flaw = "a reservation does not end"
	reservedAfterUse      flaw = "a reservation outlives the swap that it was for"
	reservedIsListed      flaw = "the note of a reservation is a register"
	reservedBeforeRetry   flaw = "a reservation is looked at before the versions"
	ageOfCreation         flaw = "the age is that of the register"
	ageWithoutClock       flaw = "a store without a clock says an age of zero"
	clockStandsStill      flaw = "the clock is that of the last swap"
	forgetsInSilence      flaw = "a store forgets and does not say so"
	losesInSilence        flaw = "what was thrown away counts as empty"
	agesInRestart         flaw = "a memory goes on in a restart as if nothing could have been lost"
	memoryStandsStill     flaw = "a memory does not grow older"
	memoryHasNoName       flaw = "a memory has no name"
	goroutineLeak         flaw = "each listening leaves a goroutine"
	fileLeak              flaw = "Close leaves a file open"
	closeWaitsForEver     flaw = "a stop after Close hangs"
	spoiltIsFatal         flaw = "one register that makes no sense ends a list"
	keptTwice             flaw = "a key can be kept by two stores"
	keepEndsWithContext   flaw = "the keeping ends with the context of Keep"
	unkeptIsPolled        flaw = "a release is noticed by a slow poll"
)

// planted is what goroutines that a flaw leaves behind wait for.
var planted = make(chan struct{})

const modelLimit = 300_000

// model is a system with all that a System may have: it is stopped, restarted and made to forget. Its stores are
// correct, except for the flaw planted in them.
type model struct {
	flaw flaw

	mu        sync.Mutex
	registers map[string]*modelRegister
	replica   map[string]register.Item // as it was one swap ago
	ears      map[string]map[*modelEar]bool
	keeping   map[string]chan struct{} // closed when it is released
	memory    int
	began     time.Time
	since     time.Time
	down      bool
	thawed    chan struct{} // nil: not frozen
}

type modelRegister struct {
	item          register.Item
	at, made      time.Time
	count         int
	values        map[register.Version]string // that were swapped in with a version
	by            register.Version            // who has it reserved
	reservedUntil time.Time
}

func flawedSystem(t testing.TB, f flaw) *System {
	m := &model{
		flaw: f, registers: map[string]*modelRegister{}, replica: map[string]register.Item{}, ears: map[string]map[*modelEar]bool{},
		keeping: map[string]chan struct{}{}, began: time.Now(), since: time.Now(),
	}
	return &System{
		Open: func(t testing.TB) register.Store {
			m.mu.Lock()
			defer m.mu.Unlock()
			s := &modelStore{m: m, knows: m.memory}
			s.life, s.end = context.WithCancel(context.Background())
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
		Ages:    f != ageWithoutClock,
		Clock:   true,
		Limit:   modelLimit,
		Restart: func(testing.TB) { m.restart() },
		Forget:  func(testing.TB) { m.forget() },
		Lose:    func(_ testing.TB, key string) { m.lose(key) },
		Spoil:   func(_ testing.TB, key string) { m.spoil(key) },
		Freeze:  func(testing.TB) func() { return m.freeze() },
	}
}

func (m *model) restart() {
	m.mu.Lock()
	m.down = true
	if m.flaw == forgetsInSilence {
		clear(m.registers)
	}
	m.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	m.mu.Lock()
	m.down = false
	if m.flaw != agesInRestart {
		m.since = time.Now()
	}
	var all []*modelEar
	for _, ears := range m.ears {
		for e := range ears {
			e.deaf = true
			all = append(all, e)
		}
	}
	m.mu.Unlock()
	time.AfterFunc(20*time.Millisecond, func() { // they are connected again
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, e := range all {
			e.deaf = false
			if m.flaw != notesLostInRestart {
				e.tell(nil)
			}
		}
	})
}

func (m *model) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.registers)
	if m.flaw != forgetsInSilence {
		m.memory++
		m.since = time.Now()
	}
}

func (m *model) lose(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.registers, m.key(key))
	if m.flaw != losesInSilence {
		m.memory++
		m.since = time.Now()
	}
}

const modelSpoilt = "what no store writes"

func (m *model) spoil(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.registers[m.key(key)].item.Value = []byte(modelSpoilt)
}

func (m *model) freeze() (thaw func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	thawed := make(chan struct{})
	m.thawed = thawed
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.thawed = nil
		close(thawed)
	})
}

type modelStore struct {
	m     *model
	knows int // the memory it was told of
	life  context.Context
	end   context.CancelFunc
}

var (
	errDown   = errors.New("model: out of reach")
	errClosed = errors.New("model: closed")
)

// enter begins a call. If it returns nil, mu is locked.
func (s *modelStore) enter(ctx context.Context, askMemory bool) error {
	m := s.m
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		m.mu.Lock()
		thawed := m.thawed
		switch {
		case s.life.Err() != nil:
			m.mu.Unlock()
			return errClosed
		case thawed != nil:
		case m.down:
			m.mu.Unlock()
			return errDown
		case s.knows != m.memory && !askMemory:
			m.mu.Unlock()
			return fmt.Errorf("model: %w", register.ErrForgot)
		default:
			return nil
		}
		m.mu.Unlock()
		if m.flaw == contextIgnored {
			ctx = context.WithoutCancel(ctx)
		}
		select {
		case <-thawed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.life.Done():
		}
	}
}

func (m *model) key(key string) string {
	switch {
	case m.flaw == keysFold:
		return strings.ToLower(key)
	case m.flaw == keysTrimmed:
		return strings.TrimRight(key, " ")
	case m.flaw == keysCut:
		return key[:min(len(key), 250)]
	case m.flaw == keysNormalized:
		return strings.ReplaceAll(strings.ReplaceAll(key, "//", "/"), "/./", "/")
	}
	return key
}

// item needs mu.
func (m *model) item(key string) register.Item {
	r := m.registers[m.key(key)]
	if r == nil || r.item.Version.IsZero() || m.flaw == emptyValueIsNothing && len(r.item.Value) == 0 {
		return register.Item{Key: key}
	}
	it := r.item
	it.Key = key
	it.Age, it.Clock = time.Since(r.at), time.Since(m.began)
	switch m.flaw {
	case clockStandsStill:
		it.Clock -= it.Age
	case ageOfCreation:
		it.Age = time.Since(r.made)
	case valueEndsAtZero:
		it.Value, _, _ = bytes.Cut(it.Value, []byte{0})
	case valueCut:
		it.Value = it.Value[:min(len(it.Value), 64<<10)]
	}
	return it
}

func (s *modelStore) Read(ctx context.Context, key string) (register.Item, error) {
	if err := s.enter(ctx, false); err != nil {
		return register.Item{}, err
	}
	defer s.m.mu.Unlock()
	if old, ok := s.m.replica[key]; ok && s.m.flaw == readIsStale && rand.N(10) == 0 {
		return old, nil
	}
	return s.m.item(key), nil
}

func (s *modelStore) Swap(ctx context.Context, sw register.Swap) (register.Item, error) {
	m := s.m
	if m.flaw == checkedThenSwapped {
		it, err := s.Read(ctx, sw.Key)
		if err != nil {
			return it, err
		}
		if it.Version != sw.Old && it.Version != sw.Next {
			return it, register.ErrConflict
		}
		time.Sleep(100 * time.Microsecond)
	}
	if err := s.enter(ctx, false); err != nil {
		return register.Item{}, err
	}
	if m.flaw == noteEarly {
		if m.item(sw.Key).Version == sw.Old {
			m.tell(sw.Notes)
		}
		m.mu.Unlock()
		time.Sleep(time.Millisecond)
		if err := s.enter(ctx, false); err != nil {
			return register.Item{}, err
		}
		defer m.mu.Unlock()
		sw.Notes = nil
		return m.swap(sw)
	}
	before := m.item(sw.Key)
	if m.flaw == checkedThenSwapped {
		sw.Old = before.Version
	}
	it, err := m.swap(sw)
	defer m.mu.Unlock()
	if err == nil && it.Version != before.Version {
		m.replica[sw.Key] = before
	}
	if errors.Is(err, register.ErrConflict) {
		if m.flaw == conflictIsBare {
			it = register.Item{Key: sw.Key}
		}
		if old, ok := m.replica[sw.Key]; ok && m.flaw == conflictIsStale {
			it = old
		}
		if m.flaw == noteOnConflict {
			m.tell(sw.Notes)
		}
	}
	// Some answers take a little, and the caller has gone by then.
	if err == nil && ctx.Err() == nil && rand.N(4) == 0 {
		m.mu.Unlock()
		time.Sleep(50 * time.Microsecond)
		m.mu.Lock()
	}
	if ctx.Err() != nil {
		if m.flaw == givenUpIsConflict {
			return m.item(sw.Key), register.ErrConflict
		}
		return register.Item{}, ctx.Err()
	}
	return it, err
}

// swap needs mu.
func (m *model) swap(sw register.Swap) (register.Item, error) {
	key := m.key(sw.Key)
	r := m.registers[key]
	if r == nil {
		r = &modelRegister{values: map[register.Version]string{}}
		m.registers[key] = r
	}
	now := m.item(sw.Key).Version
	reserved := !r.by.IsZero() && r.by != sw.By && (time.Now().Before(r.reservedUntil) || m.flaw == reservedForEver)
	matches := now == sw.Old
	if m.flaw == versionCounts && !sw.Old.IsZero() && !now.IsZero() {
		matches = modelCount(sw.Old) == r.count
	}
	if value, ok := r.values[sw.Old]; m.flaw == valuesCompared && ok && !now.IsZero() {
		matches = string(r.item.Value) == value
	}
	again := now == sw.Next
	switch {
	case m.flaw == deleteIgnoresVersion && sw.Next.IsZero(), m.flaw == swapIgnoresVersion && !sw.Next.IsZero():
	case reserved && m.flaw == reservedBeforeRetry:
		return m.item(sw.Key), register.ErrConflict
	case again && m.flaw == secondTryApplied && !now.IsZero():
		m.tell(sw.Notes)
		r.item.Value = append(bytes.Clone(r.item.Value), sw.Value...)
		return m.item(sw.Key), nil
	case again && m.flaw == secondTryConflicts:
		return m.item(sw.Key), register.ErrConflict
	case again:
		return m.item(sw.Key), nil
	case reserved, !matches:
		if !reserved && sw.Reserve > 0 {
			r.by, r.reservedUntil = sw.By, time.Now().Add(sw.Reserve)
		}
		return m.item(sw.Key), register.ErrConflict
	}
	if len(sw.Value) > modelLimit {
		if m.flaw == tooLargeApplied {
			r.item = register.Item{Value: sw.Value[:modelLimit], Version: sw.Next}
		}
		return register.Item{}, register.ErrTooLarge
	}
	if m.flaw != reservedAfterUse {
		r.by = register.Version{}
	}
	if r.item.Version.IsZero() {
		r.made, r.count = time.Now(), 0
	}
	r.count++
	r.at = time.Now()
	r.item = register.Item{Value: bytes.Clone(sw.Value), Version: sw.Next}
	r.values[sw.Next] = string(sw.Value)
	if m.flaw == versionCounts {
		modelCounts.Store(sw.Next, r.count)
	}
	m.tell(sw.Notes)
	return m.item(sw.Key), nil
}

// modelCounts says which count a version stands for.
var modelCounts sync.Map

func modelCount(v register.Version) int {
	n, _ := modelCounts.Load(v)
	count, _ := n.(int)
	return count
}

// tell needs mu.
func (m *model) tell(notes []register.Note) {
	said := map[string]bool{}
	if m.flaw == notesCapped {
		notes = notes[:min(len(notes), 256)]
	}
	for _, n := range notes {
		if id := n.Topic + "\x00" + string(n.Text); m.flaw == notesFolded {
			if said[id] {
				continue
			}
			said[id] = true
		}
		for topic, ears := range m.ears {
			if topic != n.Topic && !(m.flaw == topicIsPattern && strings.HasSuffix(topic, "*") && strings.HasPrefix(n.Topic, strings.TrimSuffix(topic, "*"))) {
				continue
			}
			for e := range ears {
				if !e.deaf && !(m.flaw == notesLost && rand.N(10) == 0) {
					e.tell(n.Text)
				}
			}
		}
	}
}

func (s *modelStore) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if err := s.enter(ctx, false); err != nil {
		return err
	}
	m := s.m
	if m.flaw == prefixCut {
		prefix = prefix[:min(len(prefix), 400)]
	}
	before := map[*modelRegister]int{}
	if m.flaw == listMissesBusy {
		for _, r := range m.registers {
			before[r] = r.count
		}
		m.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		m.mu.Lock()
	}
	var all []register.Item
	for key, r := range m.registers {
		matches := strings.HasPrefix(key, prefix)
		if m.flaw == prefixIsPattern {
			matches = modelLike(key, prefix+"%")
		}
		it := m.item(key)
		switch {
		case !matches:
		case m.flaw == reservedIsListed && !r.by.IsZero():
		case it.Version.IsZero():
			continue
		case m.flaw == listMissesBusy && before[r] != r.count:
			continue
		case m.flaw == spoiltIsFatal && string(it.Value) == modelSpoilt:
			m.mu.Unlock()
			return driver.ErrDenied
		}
		if matches {
			all = append(all, it)
		}
	}
	if m.flaw == listPaged {
		all = all[:min(len(all), 400)] // also where time is short
	}
	m.mu.Unlock()
	if m.flaw == listHoldsLock {
		defer m.freeze()()
	}
	for _, it := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !yield(it) && m.flaw != listGoesOn {
			break
		}
	}
	return nil
}

// modelLike is SQL's LIKE without an escape.
func modelLike(text, pattern string) bool {
	if pattern == "" {
		return text == ""
	}
	switch c := pattern[0]; {
	case c == '%':
		for i := 0; i <= len(text); i++ {
			if modelLike(text[i:], pattern[1:]) {
				return true
			}
		}
		return false
	case text == "":
		return false
	default:
		return (c == '_' || c == text[0]) && modelLike(text[1:], pattern[1:])
	}
}

// modelEar hears notes in order.
type modelEar struct {
	m      *model
	hear   func([]byte)
	deaf   bool // it has lost its connection; needs the model's mu
	more   chan struct{}
	stop   chan struct{}
	closed <-chan struct{} // when the store is

	mu    sync.Mutex
	notes [][]byte
}

func (e *modelEar) tell(note []byte) {
	if e.m.flaw == notesShuffled || e.m.flaw == hearsSeveralAtATime {
		time.AfterFunc(rand.N(3*time.Millisecond), func() { e.push(note) })
		return
	}
	e.push(note)
}

func (e *modelEar) push(note []byte) {
	if e.m.flaw == hearsSeveralAtATime {
		go e.hear(note)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.notes) >= 100 && e.m.flaw == notesLostWhenSlow {
		return
	}
	e.notes = append(e.notes, note)
	select {
	case e.more <- struct{}{}:
	default:
	}
}

func (e *modelEar) run() {
	for {
		e.mu.Lock()
		var note []byte
		some := len(e.notes) > 0
		if some {
			note, e.notes = e.notes[0], e.notes[1:]
		}
		e.mu.Unlock()
		select {
		case <-e.stop:
			return
		default:
		}
		if some {
			e.hear(note)
			continue
		}
		select {
		case <-e.more:
		case <-e.stop:
			return
		case <-e.closed:
			return
		}
	}
}

func (s *modelStore) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	if err := s.enter(ctx, false); err != nil {
		return nil, err
	}
	m := s.m
	defer m.mu.Unlock()
	e := &modelEar{m: m, hear: hear, more: make(chan struct{}, 1), stop: make(chan struct{}), closed: s.life.Done()}
	if m.ears[topic] == nil {
		m.ears[topic] = map[*modelEar]bool{}
	}
	m.ears[topic][e] = true
	var running sync.WaitGroup
	running.Go(e.run)
	if m.flaw == goroutineLeak {
		go func() { <-planted }()
	}
	stop = sync.OnceFunc(func() {
		m.mu.Lock()
		delete(m.ears[topic], e)
		if m.flaw == oneListenerATopic {
			clear(m.ears[topic])
		}
		m.mu.Unlock()
		close(e.stop)
		if m.flaw != hearsAfterStop {
			running.Wait()
		}
		if m.flaw == closeWaitsForEver && s.life.Err() != nil {
			<-planted
		}
	})
	if m.flaw == listenEndsWithContext {
		context.AfterFunc(ctx, stop)
	}
	return stop, nil
}

func (s *modelStore) Memory(ctx context.Context) (register.Memory, error) {
	if err := s.enter(ctx, true); err != nil {
		return register.Memory{}, err
	}
	defer s.m.mu.Unlock()
	s.knows = s.m.memory
	mem := register.Memory{ID: fmt.Sprint(s.m.memory), For: time.Since(s.m.since)}
	switch s.m.flaw {
	case memoryStandsStill:
		mem.For = 0
	case memoryHasNoName:
		mem.ID = ""
	}
	return mem, nil
}

func (s *modelStore) Strength() driver.Strength {
	return driver.Strength{Failover: driver.NoFailover, WakeUp: driver.Told}
}

func (s *modelStore) Close() error {
	s.end()
	if s.m.flaw == fileLeak {
		_, err := os.Open(os.DevNull)
		return err
	}
	return nil
}

func (s *modelStore) Keep(ctx context.Context, key string) (release func(), err error) {
	if err := s.enter(ctx, false); err != nil {
		return nil, err
	}
	m := s.m
	defer m.mu.Unlock()
	if m.keeping[key] != nil && m.flaw != keptTwice {
		return nil, fmt.Errorf("model: %w", register.ErrConflict)
	}
	released := make(chan struct{})
	m.keeping[key] = released
	release = sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.keeping[key] == released {
			delete(m.keeping, key)
		}
		close(released)
	})
	if m.flaw == keepEndsWithContext {
		context.AfterFunc(ctx, release)
	}
	return release, nil
}

func (s *modelStore) Unkept(ctx context.Context, key string) error {
	for {
		if err := s.enter(ctx, false); err != nil {
			return err
		}
		released := s.m.keeping[key]
		s.m.mu.Unlock()
		if released == nil {
			return nil
		}
		if s.m.flaw == unkeptIsPolled {
			released = make(chan struct{})
			defer time.AfterFunc(10*time.Second, func() { close(released) }).Stop()
		}
		select {
		case <-released:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.life.Done():
			return errClosed
		}
	}
}
