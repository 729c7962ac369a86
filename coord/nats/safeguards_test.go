package nats

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// allocated is how much memory was asked for so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// put swaps a text in over whatever stands there.
func put(t testing.TB, s *Store, key, text string, notes ...register.Note) register.Item {
	t.Helper()
	it, err := s.Read(within(t, 10*time.Second), key)
	if err == nil {
		it, err = s.Swap(within(t, 10*time.Second), register.Swap{Key: key, Old: it.Version, Next: register.NewVersion(), Value: []byte(text), Notes: notes})
	}
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func remembered(t testing.TB, s *Store) register.Memory {
	t.Helper()
	m, err := s.Memory(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// forgets waits for the answer of a call, and fails the test unless that is ErrForgot.
func forgets(t testing.TB, what string, call func(ctx context.Context) error) {
	t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err = call(ctx)
		cancel()
		if err == nil || errors.Is(err, register.ErrForgot) {
			break
		}
	}
	if !errors.Is(err, register.ErrForgot) {
		t.Errorf("%s: %v, want ErrForgot", what, err)
	}
}

func reading(s *Store, key string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.Read(ctx, key)
		return err
	}
}

// A swap that was prepared before somebody else's must not replace that.
func TestALateSwapReplacesNothing(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Shared()).Member(0)
	root := WithRoot("late")
	a, b := opened(t, m, root), opened(t, m, root)
	first := put(t, a, "k", "first")
	if _, err := b.Read(within(t, 10*time.Second), "k"); err != nil {
		t.Fatal(err)
	}
	second := put(t, a, "k", "second")
	late := register.Swap{Key: "k", Old: first.Version, Next: register.NewVersion(), Value: []byte("late")}
	if cur, err := b.Swap(within(t, 10*time.Second), late); !errors.Is(err, register.ErrConflict) || cur.Version != second.Version {
		t.Errorf("it returns %v, %v", cur, err)
	}
	// Nor what was emptied and made anew meanwhile.
	if _, err := a.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: second.Version}); err != nil {
		t.Fatal(err)
	}
	third := put(t, a, "k", "third")
	late.Old = second.Version
	if cur, err := b.Swap(within(t, 10*time.Second), late); !errors.Is(err, register.ErrConflict) || cur.Version != third.Version {
		t.Errorf("it returns %v, %v", cur, err)
	}
}

// What is read at one version must be swapped at that version, also if the same process swaps it meanwhile.
func TestSwapsOfOneStoreDoNotReplaceEachOther(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Shared()).Member(0)
	a := opened(t, m, WithRoot("one"))
	const each, n = 25, 8
	done := make(chan error, n)
	for range n {
		go func() {
			done <- func() error {
				for range each {
					for {
						it, err := a.Read(t.Context(), "count")
						if err != nil {
							return err
						}
						var count int
						_, _ = fmt.Sscan(string(it.Value), &count)
						_, err = a.Swap(t.Context(), register.Swap{Key: "count", Old: it.Version, Next: register.NewVersion(), Value: fmt.Append(nil, count+1)})
						if err == nil {
							break
						}
						if !errors.Is(err, register.ErrConflict) {
							return err
						}
					}
				}
				return nil
			}()
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if it, err := a.Read(t.Context(), "count"); err != nil || string(it.Value) != fmt.Sprint(each*n) {
		t.Errorf("counted %q, %v; want %d", it.Value, err, each*n)
	}
}

func TestAServerThatWasStartedAgainMayHaveForgotten(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	s, other := opened(t, m), opened(t, m)
	before := remembered(t, s)
	remembered(t, other)
	put(t, s, "k", "x")
	m.Restart(t)
	swap := register.Swap{Key: "late", Next: register.NewVersion(), Value: []byte("x")}
	forgets(t, "Read", reading(s, "k"))
	now := remembered(t, s)
	if now.ID == before.ID || now.For > time.Minute {
		t.Errorf("it is the memory %v, and was %v", now, before)
	}
	// Who has not noticed does nothing in the new memory.
	forgets(t, "Swap", func(ctx context.Context) error {
		_, err := other.Swap(ctx, swap)
		return err
	})
	if it, err := s.Read(within(t, 10*time.Second), "late"); err != nil || !it.Version.IsZero() {
		t.Errorf("%v, %v", it, err)
	}
	if m := remembered(t, other); m.ID != now.ID {
		t.Errorf("the other one has the memory %v, not %v", m, now)
	}
}

func TestAServerThatWaitsForItsDiskRemembers(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Fsync()).Member(0)
	s := opened(t, m, WithMonitor(monitor(m)))
	before := remembered(t, s)
	it := put(t, s, "k", "x")
	m.Restart(t)
	storecheck.Eventually(t, "it can be read", func() bool {
		got, err := s.Read(within(t, time.Second), "k")
		if errors.Is(err, register.ErrForgot) {
			t.Fatal(err)
		}
		return err == nil && got.Version == it.Version
	})
	now := remembered(t, s)
	if now.ID != before.ID || now.For > time.Minute {
		t.Errorf("it is the memory %v, and was %v", now, before)
	}
}

// A disk that is put back to an earlier state has numbers that were seen already.
func TestADiskThatIsPutBackIsNoticed(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Fsync()).Member(0)
	s := opened(t, m, WithMonitor(monitor(m)))
	put(t, s, "k", "kept")
	m.KeepDisk(t)
	storecheck.Eventually(t, "the server is back", func() bool { return reading(s, "k")(within(t, time.Second)) == nil })
	before := remembered(t, s)
	for i := range 3 {
		put(t, s, "k", fmt.Sprint("lost ", i))
	}
	m.PutBackDisk(t)
	forgets(t, "Read", reading(s, "other"))
	if now := remembered(t, s); now.ID == before.ID {
		t.Errorf("it is the memory %v as before", now)
	}
	if it, err := s.Read(within(t, 10*time.Second), "k"); err != nil || !it.Version.IsZero() {
		t.Errorf("there is %v, %v", it, err)
	}
}

func TestNobodyTakesMessagesAway(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	s := opened(t, m)
	it := put(t, s, "k", "x")
	known, err := s.known.Current()
	if err != nil {
		t.Fatal(err)
	}
	js := jetStream(t, m)
	if err := js.PurgeStream(defaultRoot); err == nil {
		t.Error("the stream was purged")
	}
	if err := js.DeleteMsg(defaultRoot, known.seen.Of("k").seq); err == nil {
		t.Error("a message was deleted")
	}
	if got, err := s.Read(within(t, 10*time.Second), "k"); err != nil || got.Version != it.Version {
		t.Errorf("there is %v, %v", got, err)
	}
}

// jetStream is the server's, as an operator sees it.
func jetStream(t testing.TB, m *servers.Member) natsgo.JetStreamContext {
	t.Helper()
	js, err := operator(t, m).JetStream()
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// throwsAway has the stream keep one message only, and writes one to it. It returns how the stream was set.
func throwsAway(t *testing.T, s *Store, m *servers.Member) (js natsgo.JetStreamContext, was natsgo.StreamConfig) {
	t.Helper()
	js = jetStream(t, m)
	info, err := js.StreamInfo(defaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	changed := info.Config
	changed.MaxMsgs = 1
	if _, err := js.UpdateStream(&changed); err != nil {
		t.Fatal(err)
	}
	w := register.Swap{Key: "other", Next: register.NewVersion(), Value: []byte("x")}
	if _, err := s.Swap(within(t, 10*time.Second), w); err != nil {
		t.Fatal(err)
	}
	return js, info.Config
}

// Somebody who may change streams has this one throw messages away. Nobody takes a register for empty then who knows better.
func TestAMessageThatHasGoneIsNoEmptyRegister(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	s, late := opened(t, m), opened(t, m)
	before := remembered(t, s)
	put(t, s, "k", "x")
	js, _ := throwsAway(t, s, m)
	forgets(t, "Read", reading(s, "k"))
	forgets(t, "Read by who was there before, and has never seen it", reading(late, "k"))
	// And the stream is not gone on with.
	if _, err := s.Memory(within(t, 10*time.Second)); err == nil {
		t.Error("the changed stream is used")
	}
	if err := js.DeleteStream(defaultRoot); err != nil {
		t.Fatal(err)
	}
	if now := remembered(t, s); now.ID == before.ID {
		t.Errorf("it is the memory %v as before", now)
	}
}

// What shows that the stream has thrown nothing away is there before anything else, and nobody writes over it.
func TestTheFirstMessageOfAStreamStands(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	s := opened(t, m)
	for i := range 10 {
		put(t, s, "k", fmt.Sprint(i))
	}
	known, err := s.known.Current()
	if err != nil {
		t.Fatal(err)
	}
	js := jetStream(t, m)
	first, err := js.GetMsg(defaultRoot, 1)
	if err != nil || !strings.HasPrefix(first.Subject, known.registers(defaultRoot)+".first.") {
		t.Errorf("the first message is %v, %v", first, err)
	}
}

// A stream that is set to throw messages away, and has thrown away none so far, is not gone on with either.
func TestAStreamThatIsChangedIsNotGoneOnWith(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	s := opened(t, m)
	js := jetStream(t, m)
	info, err := js.StreamInfo(defaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	info.Config.MaxAge = time.Hour
	if _, err := js.UpdateStream(&info.Config); err != nil {
		t.Fatal(err)
	}
	forgets(t, "Read", reading(s, "k"))
}

// He changes it back before anybody looks. Whoever looks knows better all the same, also who has never seen the message.
func TestAMessageThatHasGoneIsMissedThoughTheStreamIsAsItWas(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	s := opened(t, m)
	for what, looks := range map[string]func(late *Store) error{
		"by who has seen it":       func(*Store) error { return reading(s, "k")(within(t, 10*time.Second)) },
		"by who has never seen it": func(late *Store) error { return reading(late, "k")(within(t, 10*time.Second)) },
		"by who looks what there is": func(late *Store) error {
			return late.List(within(t, 10*time.Second), "", func(register.Item) bool { return true })
		},
		"by who swaps what is missing": func(late *Store) error {
			_, err := late.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: register.NewVersion(), Next: register.NewVersion()})
			return err
		},
	} {
		before := remembered(t, s)
		put(t, s, "k", "x")
		late := opened(t, m)
		remembered(t, late)
		js, was := throwsAway(t, s, m)
		if _, err := js.UpdateStream(&was); err != nil {
			t.Fatal(err)
		}
		if err := looks(late); !errors.Is(err, register.ErrForgot) {
			t.Errorf("%s: %v, want ErrForgot", what, err)
		}
		// Nor is it gone on with by who comes then.
		if now := remembered(t, opened(t, m)); now.ID == before.ID {
			t.Errorf("%s: a new one has the same memory", what)
		}
		forgets(t, what, reading(s, "k"))
	}
}

// heard collects notes; a nil is "lost".
func listen(t testing.TB, s *Store, topic string) <-chan string {
	t.Helper()
	all := make(chan string, 1000)
	stop, err := s.Listen(within(t, 20*time.Second), topic, func(note []byte) {
		if note == nil {
			all <- "lost"
		} else {
			all <- string(note)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return all
}

func hears(t testing.TB, all <-chan string, want string) {
	t.Helper()
	for end := time.After(20 * time.Second); ; {
		select {
		case got := <-all:
			if got == want {
				return
			}
		case <-end:
			t.Fatalf("%q is not heard", want)
		}
	}
}

func TestNotesThatAreTooManyAreSaidToBeLost(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Shared()).Member(0)
	root := WithRoot("many")
	a, b := opened(t, m, root), opened(t, m, root)
	all := listen(t, a, "t")
	var notes []register.Note
	for range 100 {
		notes = append(notes, register.Note{Topic: "t", Text: []byte(strings.Repeat("x", 7000))})
	}
	put(t, b, "k", "x", notes...)
	hears(t, all, "lost")
	put(t, b, "k", strings.Repeat("x", maxValue), register.Note{Topic: "t", Text: []byte("and the next")})
	hears(t, all, "and the next")
}

func TestWhatIsToldWhileThereIsNoConnectionIsSaidToBeLost(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Fsync()).Member(0)
	s := opened(t, m, WithMonitor(monitor(m)))
	all := listen(t, s, "t")
	m.Restart(t)
	hears(t, all, "lost")
	storecheck.Eventually(t, "who asks next to have been told of the restart", func() bool {
		_, err := s.Read(within(t, 10*time.Second), "k")
		return err == nil
	})
	put(t, s, "k", "x", register.Note{Topic: "t", Text: []byte("told")})
	hears(t, all, "told")
}

// Two who notice at once that all begins anew find the same memory. A server lets two streams that are made at the same moment
// share a subject (seen with 2.15.2), so the subject alone would not do.
func TestManyBeginOneMemory(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	for round := range 5 {
		removeStreams(t, m)
		ids := make(chan string, 8)
		for range cap(ids) {
			go func() {
				s, err := Open(within(t, 20*time.Second), m.URL())
				if err != nil {
					ids <- err.Error()
					return
				}
				defer s.Close()
				mem, _ := s.Memory(within(t, 20*time.Second))
				ids <- mem.ID
			}()
		}
		first := <-ids
		for range cap(ids) - 1 {
			if id := <-ids; id != first {
				t.Fatalf("round %d: one has %q, another one %q", round, first, id)
			}
		}
	}
	js := jetStream(t, m)
	n := 0
	for range js.StreamNames() {
		n++
	}
	if n != 1 {
		t.Errorf("there are %d streams", n)
	}
}

// Whoever was connected when the server was started again may make the stream anew, and all find the same one in the end.
func TestManyWhoNoticeARestartFindOneMemory(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	var all []*Store
	for range 8 {
		all = append(all, opened(t, m))
	}
	before := remembered(t, all[0])
	m.Restart(t)
	var noticing sync.WaitGroup
	for _, s := range all {
		noticing.Go(func() { forgets(t, "Read", reading(s, "k")) })
	}
	noticing.Wait()
	storecheck.Eventually(t, "all have one memory", func() bool {
		ids := make(map[string]bool)
		for _, s := range all {
			ids[remembered(t, s).ID] = true
		}
		return len(ids) == 1 && !ids[before.ID]
	})
}

// In the stream that stands now there is nothing of an earlier memory. Who still goes by that must not take its registers for empty.
func TestAMemoryThatIsOverHasNoEmptyRegisters(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	for what, call := range map[string]func(s *Store, ctx context.Context) error{
		"Read": func(s *Store, ctx context.Context) error { return reading(s, "never")(ctx) },
		"List": func(s *Store, ctx context.Context) error {
			return s.List(ctx, "", func(register.Item) bool { return true })
		},
		"Swap": func(s *Store, ctx context.Context) error {
			_, err := s.Swap(ctx, register.Swap{Key: "never", Next: register.NewVersion()})
			return err
		},
		"a look by Swap": func(s *Store, ctx context.Context) error {
			v := register.NewVersion()
			_, err := s.Swap(ctx, register.Swap{Key: "never", Old: v, Next: v})
			return err
		},
	} {
		s := opened(t, m)
		remembered(t, s)
		removeStreams(t, m)
		remembered(t, opened(t, m))
		if err := call(s, within(t, 10*time.Second)); !errors.Is(err, register.ErrForgot) {
			t.Errorf("%s: %v, want ErrForgot", what, err)
		}
	}
}
