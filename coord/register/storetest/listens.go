package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

var listens = []scenario{
	{name: "a store that cannot tell says so", run: muteSaysSo},
	{name: "each hears its topic only", run: ownTopicOnly},
	{name: "a text is any bytes", run: anyText},
	{name: "many of one swap", run: manyOfOneSwap},
	{name: "however large together", run: largeTogether},
	{name: "from now on", run: fromNowOn},
	{name: "in the order of the swaps", run: inOrder},
	{name: "what a note tells can be read", run: notEarly},
	{name: "a swap that is not applied tells nobody", run: notOnConflict},
	{name: "a second try tells nobody again", run: notAgain},
	{name: "the listening outlives its context", run: listenOutlivesContext},
	{name: "one at a time", run: oneAtATime},
	{name: "nothing after the stop", run: nothingAfterStop},
	{name: "many topics", run: manyTopics},
	{name: "many listen to one topic", run: manyListeners},
	{name: "those who come and go do not disturb others", run: comingAndGoing},
	{name: "one who is slow does not lose in silence", alone: true, run: slowListener},
	{name: "a restart does not lose in silence", alone: true, run: listensThroughRestart},
}

func muteSaysSo(s *scene) {
	if !s.sys.Mute {
		s.Skip("the system tells")
	}
	a := s.open()
	for range 2 {
		stop, err := a.Listen(s.ctx, s.key("t"), func([]byte) { s.Error("a mute store told something") })
		if !errors.Is(err, register.ErrMute) {
			s.Errorf("Listen: %v, want ErrMute", err)
		}
		if err == nil {
			defer stop()
		}
		s.put(a, s.key("k"), s.read(a, s.key("k")).Version, "x", register.Note{Topic: s.key("t"), Text: []byte("told")})
	}
}

func ownTopicOnly(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	names := []string{"t", "T", "t ", "tt", "t/", "t/u", "t*", "*", "?", "[t]", "t%", "_", `t\`, "é", "e\u0301", "日本", "'", `"`, "t.u", "t,u", strings.Repeat("l", 900), strings.Repeat("l", 899) + "m"}
	var ears []*ear
	for _, name := range names {
		ears = append(ears, s.listen(a, s.key(name)))
	}
	var stands register.Item
	for _, name := range names {
		stands = s.put(b, s.key("k"), stands.Version, "x", register.Note{Topic: s.key(name), Text: []byte("for " + name)})
	}
	// One swap tells several topics.
	var notes []register.Note
	for _, name := range names {
		notes = append(notes, register.Note{Topic: s.key(name), Text: []byte("again for " + name)})
	}
	notes = append(notes, register.Note{Topic: s.key("nobody listens"), Text: []byte("x")})
	s.put(b, s.key("k"), stands.Version, "x", notes...)
	for i, name := range names {
		s.hears(ears[i], "again for "+name)
	}
	for i, name := range names {
		s.quiet(ears[i], "for "+name, "again for "+name)
	}
}

func anyText(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	e := s.listen(a, s.key("t"))
	var stands register.Item
	var want []string
	for _, text := range []string{
		"x", "\x00", "\x00a\x00", "\xff\xfe", "a b", "\n", "\r\n", "'", `"`, `\`, "%s", "é", "nil", "x", "x",
		strings.Repeat("a", 255), noise(256), noise(1500), strings.Repeat("\xff", 7000), noise(7000),
	} {
		want = append(want, text)
		stands = s.put(b, s.key("k"), stands.Version, "v", register.Note{Topic: s.key("t"), Text: []byte(text)})
	}
	s.hears(e, want[len(want)-1])
	s.quiet(e, want...)
	// Emptying a register tells as well. And one swap may tell a topic several things, even the same.
	want = append(want, "one", "two", "two", "one", "three")
	sw := register.Swap{Key: s.key("k"), Old: stands.Version}
	for _, text := range want[len(want)-5:] {
		sw.Notes = append(sw.Notes, register.Note{Topic: s.key("t"), Text: []byte(text)})
	}
	s.swap(b, sw)
	s.hears(e, "three")
	s.quiet(e, want...)
}

func manyOfOneSwap(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	e := s.listen(a, s.key("t"))
	sw := register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x")}
	for i := range 300 {
		sw.Notes = append(sw.Notes, register.Note{Topic: e.topic, Text: fmt.Append(nil, i)})
	}
	s.swap(b, sw)
	s.eventually(s.patience, "all notes are heard, or that some may have been lost", func() bool {
		_, lost := e.find(func(x sound) bool { return x.lost })
		return lost || len(e.all()) == len(sw.Notes)
	})
}

// largeTogether has swaps tell more and more. None is refused for that.
func largeTogether(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	e := s.listen(a, s.key("t"))
	var stands register.Item
	for kB := 2; kB <= 512; kB += kB / 2 {
		var notes []register.Note
		for range kB {
			notes = append(notes, register.Note{Topic: s.key("others"), Text: []byte(strings.Repeat("x", 1000))})
		}
		last := fmt.Sprint("with ", kB, " kB")
		before := len(e.all())
		stands = s.put(b, s.key("k"), stands.Version, "x", append(notes, register.Note{Topic: e.topic, Text: []byte(last)})...)
		s.eventually(s.patience, "the last note is heard, or that some may have been lost", func() bool {
			return len(e.all()) > before
		})
		if x := e.all()[before]; !x.lost && x.text != last {
			s.Errorf("%q is heard, want %q", x.text, last)
		}
	}
}

func fromNowOn(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	var stands register.Item
	for i := range 30 {
		stands = s.put(b, s.key("k"), stands.Version, "x", register.Note{Topic: s.key("t"), Text: fmt.Appendf(nil, "before %d", i)})
		e := s.listen(a, s.key("t"))
		text := fmt.Sprintf("after %d", i)
		stands = s.put(b, s.key("k"), stands.Version, "x", register.Note{Topic: s.key("t"), Text: []byte(text)})
		s.hears(e, text)
		e.end()
	}
}

// swapsInTurn has several stores swap one register in turn, each telling a topic its number.
func (s *scene) swapsInTurn(stores []register.Store, n int, key string, t *told, size int) {
	s.Helper()
	stands := s.read(stores[0], key)
	for i := range n {
		stands = s.put(stores[i%len(stores)], key, stands.Version, "x", t.next(size))
	}
}

func inOrder(s *scene) {
	s.needsToTell()
	stores := s.opened(3)
	var mine, others []*ear
	var all []*told
	for i := range 4 {
		t := &told{topic: s.key(fmt.Sprint("t", i))}
		all = append(all, t)
		mine = append(mine, s.listen(stores[0], t.topic))
		others = append(others, s.listen(stores[1], t.topic))
	}
	var swapping sync.WaitGroup
	for i, t := range all {
		swapping.Go(func() {
			key := s.key(fmt.Sprint("k", i))
			var stands register.Item
			for n := range 150 {
				sw := register.Swap{Key: key, Old: stands.Version, Next: register.NewVersion(), Value: []byte("x"), Notes: []register.Note{t.next(1 + n%2*3000)}}
				if n%10 == 9 {
					sw.Next, sw.Value = register.Version{}, nil
				}
				var err error
				if stands, err = s.insist(stores[n%3], sw); err != nil {
					s.Errorf("Swap: %v", err)
					return
				}
			}
		})
	}
	swapping.Wait()
	for i, t := range all {
		s.accounts(mine[i], t)
		s.accounts(others[i], t)
	}
	for _, e := range append(mine, others...) {
		if _, lost := e.find(func(x sound) bool { return x.lost }); lost {
			s.Log("heard nil, though nothing was in the way")
		}
	}
}

// A listener that hears a note looks at once, and nobody swaps meanwhile.
func notEarly(s *scene) {
	s.needsToTell()
	stores := s.opened(3)
	heard := make(chan string, 1000)
	stop, err := stores[0].Listen(s.ctx, s.key("t"), func(note []byte) {
		if note != nil {
			heard <- string(note)
		}
	})
	if err != nil {
		s.Fatalf("Listen: %v", err)
	}
	defer stop()
	var stands register.Item
	for i := range 150 {
		sw := register.Swap{Key: s.key("k"), Old: stands.Version, Next: register.NewVersion(), Value: fmt.Append(nil, i)}
		if i%10 == 9 {
			sw.Next, sw.Value = register.Version{}, nil
		}
		sw.Notes = []register.Note{{Topic: s.key("t"), Text: fmt.Appendf(nil, "number %d", i)}}
		want := register.Item{Key: sw.Key, Value: sw.Value, Version: sw.Next}
		var swapping sync.WaitGroup
		swapping.Go(func() {
			it, err := s.insist(stores[1], sw)
			if err != nil {
				s.Errorf("Swap: %v", err)
			}
			stands = it
		})
		for {
			select {
			case text := <-heard:
				if text != string(sw.Notes[0].Text) {
					continue // an earlier one
				}
			case <-time.After(soon):
				s.Errorf("number %d is not heard", i)
			}
			break
		}
		for _, store := range stores {
			s.stands(store, want)
		}
		swapping.Wait()
		if s.Failed() {
			return
		}
	}
}

func notOnConflict(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	e := s.listen(a, s.key("t"))
	note := func(text string) []register.Note {
		return []register.Note{{Topic: s.key("t"), Text: []byte(text)}}
	}
	s.conflicts(b, register.Swap{Key: s.key("k"), Old: register.NewVersion(), Next: register.NewVersion(), Value: []byte("x"), Notes: note("empty")}, register.Item{Key: s.key("k")})
	stands := s.put(b, s.key("k"), register.Version{}, "x")
	for range 3 {
		s.conflicts(b, register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x"), Notes: note("create")}, stands)
		s.conflicts(b, register.Swap{Key: s.key("k"), Old: register.NewVersion(), Next: register.NewVersion(), Value: []byte("x"), Notes: note("replace")}, stands)
		s.conflicts(b, register.Swap{Key: s.key("k"), Old: register.NewVersion(), Notes: note("delete")}, stands)
	}
	if s.sys.Limit > 0 {
		_, _ = b.Swap(s.ctx, register.Swap{Key: s.key("k"), Old: stands.Version, Next: register.NewVersion(), Value: make([]byte, s.sys.Limit+1), Notes: note("too large")})
	}
	s.put(b, s.key("k"), stands.Version, "x", note("applied")...)
	s.hears(e, "applied")
	s.quiet(e, "applied")
}

func notAgain(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	e := s.listen(a, s.key("t"))
	create := register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x"), Notes: []register.Note{{Topic: s.key("t"), Text: []byte("created")}}}
	replace := register.Swap{Key: s.key("k"), Old: create.Next, Next: register.NewVersion(), Value: []byte("y"), Notes: []register.Note{{Topic: s.key("t"), Text: []byte("replaced")}}}
	empty := register.Swap{Key: s.key("k"), Old: replace.Next, Notes: []register.Note{{Topic: s.key("t"), Text: []byte("emptied")}}}
	for _, sw := range []register.Swap{create, replace, empty} {
		for range 3 {
			s.swap(a, sw)
			s.swap(b, sw)
		}
	}
	s.hears(e, "emptied")
	s.quiet(e, "created", "replaced", "emptied")
}

func listenOutlivesContext(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	e := &ear{topic: s.key("t")}
	ctx, cancel := context.WithCancel(s.ctx)
	stop, err := a.Listen(ctx, e.topic, e.hear)
	if err != nil {
		s.Fatalf("Listen: %v", err)
	}
	defer stop()
	cancel()
	time.Sleep(100 * time.Millisecond)
	s.put(b, s.key("k"), register.Version{}, "x", register.Note{Topic: e.topic, Text: []byte("late")})
	s.hears(e, "late")
}

func oneAtATime(s *scene) {
	s.needsToTell()
	stores := s.opened(3)
	e := s.listenAs(stores[0], &ear{topic: s.key("t"), slow: time.Millisecond})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			var stands register.Item
			for n := range 20 {
				var err error
				stands, err = s.insist(stores[n%3], register.Swap{
					Key: s.key(fmt.Sprint(i)), Old: stands.Version, Next: register.NewVersion(), Value: []byte("x"),
					Notes: []register.Note{{Topic: e.topic, Text: fmt.Appendf(nil, "%d of %d", n, i)}},
				})
				if err != nil {
					s.Errorf("Swap: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	s.eventually(s.patience, "all are heard", func() bool {
		_, lost := e.find(func(x sound) bool { return x.lost })
		return lost || len(e.all()) == 8*20
	})
	if e.most > 1 {
		s.Errorf("%d notes were told at a time", e.most)
	}
}

// tellAlways swaps a register and tells a topic of it, again and again until stop.
func (s *scene) tellAlways(store register.Store, key, topic string) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		stands, err := store.Read(ctx, key)
		for n := 0; err == nil && ctx.Err() == nil; n++ {
			stands, err = s.insist(store, register.Swap{
				Key: key, Old: stands.Version, Next: register.NewVersion(), Value: []byte("x"),
				Notes: []register.Note{{Topic: topic, Text: fmt.Append(nil, n)}},
			})
			time.Sleep(2 * time.Millisecond) // so that no backlog grows
		}
		if err != nil && ctx.Err() == nil {
			s.Errorf("%v", err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func nothingAfterStop(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	defer s.tellAlways(b, s.key("k"), s.key("t"))()
	for range 40 {
		var stopped, late atomic.Bool
		var heard atomic.Int64
		stop, err := a.Listen(s.ctx, s.key("t"), func([]byte) {
			heard.Add(1)
			time.Sleep(time.Millisecond)
			if stopped.Load() {
				late.Store(true)
			}
		})
		if err != nil {
			s.Fatalf("Listen: %v", err)
		}
		s.eventually(soon, "something is heard", func() bool { return heard.Load() > 0 })
		stop()
		stopped.Store(true)
		time.Sleep(3 * time.Millisecond)
		if late.Load() {
			s.Fatal("a note is told when stop has returned")
		}
	}
}

func manyTopics(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	const n = 200
	var ears []*ear
	for i := range n {
		ears = append(ears, s.listen(a, s.key(fmt.Sprint(i))))
	}
	var stands register.Item
	for i := range n {
		stands = s.put(b, s.key("k"), stands.Version, "x", register.Note{Topic: s.key(fmt.Sprint(i)), Text: fmt.Append(nil, i)})
	}
	for i, e := range ears {
		s.hears(e, fmt.Sprint(i))
		for _, x := range e.all() {
			if !x.lost && x.text != fmt.Sprint(i) {
				s.Errorf("topic %d: heard %q", i, x.text)
			}
		}
	}
}

func manyListeners(s *scene) {
	s.needsToTell()
	stores := s.opened(3)
	t := &told{topic: s.key("t")}
	var ears []*ear
	for i := range 30 {
		ears = append(ears, s.listen(stores[i%3], t.topic))
	}
	s.swapsInTurn(stores, 20, s.key("k"), t, 1)
	for _, e := range ears {
		if s.accounts(e, t); s.Failed() {
			return
		}
	}
	for _, e := range ears[3:] {
		e.end()
	}
	s.put(stores[0], s.key("k"), s.read(stores[0], s.key("k")).Version, "x", register.Note{Topic: t.topic, Text: []byte("the others have gone")})
	for _, e := range ears[:3] {
		s.hears(e, "the others have gone")
	}
	for _, e := range ears[3:] {
		if e.heardNote("the others have gone") {
			s.Error("one who has stopped hears")
		}
	}
}

func comingAndGoing(s *scene) {
	s.needsToTell()
	stores := s.opened(2)
	t := &told{topic: s.key("t")}
	stays := s.listen(stores[0], t.topic)
	ctx, cancel := context.WithCancel(s.ctx)
	var others sync.WaitGroup
	for i := range 4 {
		others.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				topic := t.topic
				if i%2 == 1 {
					topic = s.key(fmt.Sprint(n % 5))
				}
				stop, err := stores[0].Listen(ctx, topic, func([]byte) {})
				if err == nil {
					stop()
				} else if ctx.Err() == nil {
					s.Errorf("Listen: %v", err)
					return
				}
			}
		})
	}
	s.swapsInTurn(stores, 100, s.key("k"), t, 1)
	cancel()
	others.Wait()
	s.accounts(stays, t)
}

func slowListener(s *scene) {
	s.needsToTell()
	stores := s.opened(2)
	t := &told{topic: s.key("t")}
	slow := s.listenAs(stores[0], &ear{topic: t.topic, slow: 2 * time.Millisecond})
	quick := s.listen(stores[1], t.topic)
	s.swapsInTurn(stores, 1500, s.key("k"), t, 7000)
	s.accounts(quick, t)
	s.accounts(slow, t)
}

func listensThroughRestart(s *scene) {
	s.needsToTell()
	s.needs("be restarted", s.sys.Restart == nil)
	stores := s.opened(2)
	for _, store := range stores {
		s.remembers(store)
	}
	t := &told{topic: s.key("t")}
	e := s.listen(stores[0], t.topic)
	swap := func() {
		s.Helper()
		s.again("Swap", func(ctx context.Context) error {
			it, err := stores[1].Read(ctx, s.key("k"))
			if err == nil {
				note := t.next(1)
				_, err = stores[1].Swap(ctx, register.Swap{Key: s.key("k"), Old: it.Version, Next: register.NewVersion(), Value: []byte("x"), Notes: []register.Note{note}})
				if err != nil {
					t.doubt()
				}
			}
			if errors.Is(err, register.ErrForgot) {
				s.remembers(stores[1])
			}
			return err
		})
	}
	swap()
	for range 2 {
		var restarting sync.WaitGroup
		restarting.Go(func() { s.sys.Restart(s) })
		for range 50 {
			swap()
			time.Sleep(2 * time.Millisecond)
		}
		restarting.Wait()
		swap()
		s.accounts(e, t)
		// And from then on it hears as before.
		s.eventually(s.patience, "a note is heard after the restart", func() bool {
			swap()
			time.Sleep(20 * time.Millisecond)
			return e.heardNote(fmt.Sprint(len(t.began) - 1))
		})
	}
}
