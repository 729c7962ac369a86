package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// ear listens to a topic and remembers what it heard, and when.
type ear struct {
	topic string
	stop  func()
	slow  time.Duration // how long it takes for a note

	mu      sync.Mutex
	heard   []sound
	now     int // how many calls of hear are under way
	most    int
	stopped bool
	after   int // calls after the stop
}

// sound is a note that was heard, or the word that some may have been lost.
type sound struct {
	text string
	lost bool
	at   time.Time
}

func (e *ear) hear(note []byte) {
	at := time.Now()
	e.mu.Lock()
	e.now++
	e.most = max(e.most, e.now)
	if e.stopped {
		e.after++
	}
	e.heard = append(e.heard, sound{string(note), note == nil, at})
	e.mu.Unlock()
	time.Sleep(e.slow)
	e.mu.Lock()
	e.now--
	e.mu.Unlock()
}

// all returns what was heard so far.
func (e *ear) all() []sound {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard[:len(e.heard):len(e.heard)]
}

// find returns the first that is as wanted.
func (e *ear) find(wanted func(sound) bool) (sound, bool) {
	for _, x := range e.all() {
		if wanted(x) {
			return x, true
		}
	}
	return sound{}, false
}

// heardNote reports whether a note was heard.
func (e *ear) heardNote(text string) bool {
	_, ok := e.find(func(x sound) bool { return !x.lost && x.text == text })
	return ok
}

func (e *ear) end() {
	e.stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
}

// listen begins to listen, until the scenario ends at the latest.
func (s *scene) listen(store register.Store, topic string) *ear {
	s.Helper()
	return s.listenAs(store, &ear{topic: topic})
}

func (s *scene) listenAs(store register.Store, e *ear) *ear {
	s.Helper()
	ctx, cancel := s.while()
	defer cancel() // the listening lasts
	stop, err := store.Listen(ctx, e.topic, e.hear)
	switch {
	case errors.Is(err, register.ErrMute):
		s.Fatalf("Listen to %.60q: %v: set System.Mute if it cannot", e.topic, err)
	case err != nil:
		s.Fatalf("Listen to %.60q: %v", e.topic, err)
	}
	e.stop = sync.OnceFunc(stop)
	s.Cleanup(e.end)
	return e
}

// hears waits until a note is heard that was told in peace.
func (s *scene) hears(e *ear, text string) {
	s.Helper()
	s.eventually(soon, fmt.Sprintf("%.60q is heard in %.60q", text, e.topic), func() bool { return e.heardNote(text) })
}

// quiet waits a while, and then checks that only these notes were heard, in this order.
func (s *scene) quiet(e *ear, want ...string) {
	s.Helper()
	time.Sleep(200 * time.Millisecond)
	var got []string
	for _, x := range e.all() {
		if !x.lost {
			got = append(got, x.text)
		}
	}
	if fmt.Sprintf("%.60q", got) != fmt.Sprintf("%.60q", want) {
		s.Errorf("heard in %.60q: %.60q, want %.60q", e.topic, got, want)
	}
}

// told is what the swaps of one register told to a topic, and when each began. Their texts are numbers: their places.
type told struct {
	topic string
	began []time.Time
	open  map[int]bool // those of which nobody knows whether they were told
}

// doubt says that it is open whether the last note was told.
func (t *told) doubt() {
	if t.open == nil {
		t.open = map[int]bool{}
	}
	t.open[len(t.began)-1] = true
}

// next returns the next note. Call it right before the swap.
func (t *told) next(size int) register.Note {
	text := make([]byte, 0, size)
	text = strconv.AppendInt(text, int64(len(t.began)), 10)
	for len(text) < size {
		text = append(text, '.')
	}
	t.began = append(t.began, time.Now())
	return register.Note{Topic: t.topic, Text: text}
}

func number(text string) int {
	for i := range text {
		if text[i] < '0' || text[i] > '9' {
			text = text[:i]
			break
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// accounts checks that each note was heard, in order and once, or that after it the ear was told of a loss.
func (s *scene) accounts(e *ear, t *told) {
	s.Helper()
	missing := func() int {
		heard := map[int]bool{}
		var lost time.Time
		for _, x := range e.all() {
			if x.lost {
				lost = x.at
			} else {
				heard[number(x.text)] = true
			}
		}
		for i, began := range t.began {
			if !heard[i] && !t.open[i] && !lost.After(began) {
				return i
			}
		}
		return -1
	}
	var lacks int
	for limit := time.Now().Add(s.patience); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if lacks = missing(); lacks < 0 {
			break
		}
	}
	if lacks >= 0 {
		s.Errorf("number %d of %d notes was not heard, and nil was not heard afterwards", lacks, len(t.began))
	}
	last := -1
	for _, x := range e.all() {
		if x.lost {
			continue
		}
		n := number(x.text)
		if n <= last {
			s.Errorf("note %d was heard after %d", n, last)
			return
		}
		last = n
	}
}
