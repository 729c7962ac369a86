package quorum

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func two(uint64) int { return 2 }

// whatIsHeard returns a hearsay of three acceptors, and what its listener has heard.
func whatIsHeard() (*hearsay, *[]string) {
	heard := new([]string)
	return newHearsay(two, func(note []byte) { *heard = append(*heard, string(note)) }, func() time.Duration { return time.Minute }), heard
}

// hears fails unless so many things were heard, and these first.
func hears(t *testing.T, heard *[]string, n int, first ...string) {
	t.Helper()
	if len(*heard) != n || !slices.Equal((*heard)[:len(first)], first) {
		t.Fatalf("heard %q, want %d, and %q first", *heard, n, first)
	}
}

func TestAMajorityMustTellTheSameText(t *testing.T) {
	h, heard := whatIsHeard()
	defer h.stop()
	tag := strings.Repeat("x", tagSize)
	h.say(0, "0", []byte(tag+"true"))
	h.say(1, "1", []byte(tag+"forged")) // by who may publish, and has heard the first
	h.say(2, "2", []byte(tag+"another"))
	hears(t, heard, 0)
	h.say(2, "2", []byte(tag+"true"))
	hears(t, heard, 1, "true")
	h.say(0, "0", []byte(tag+"forged"))
	h.say(1, "1", []byte("short"))
	hears(t, heard, len(*heard), "true")
}

// A listener looks when one of them was not heard, even if the others were: they may be away next.
func TestOneThatWasNotHeardIsAReasonToLook(t *testing.T) {
	h, heard := whatIsHeard()
	defer h.stop()
	h.say(0, "0", []byte("short"))
	hears(t, heard, 0)
	h.say(0, "0", nil)
	hears(t, heard, 1)
}

func TestRumoursAreBounded(t *testing.T) {
	h, heard := whatIsHeard()
	defer h.stop()
	tag := []byte(strings.Repeat("x", tagSize))
	for i := range 2 * maxTold {
		tag[callSize], tag[callSize+1] = byte(i), byte(i>>8)
		h.say(0, "0", tag)
	}
	if n := len(h.rumours); n > maxTold {
		t.Errorf("%d rumours are kept", n)
	}
	if len(*heard) == 0 {
		t.Error("what is not kept may have been true, and the listener does not look")
	}
}

// Who may publish, and has heard one acceptor tell of a swap, may tell the same before the others do: then the listener looks too
// early, and must look again.
func TestANoteThatWasRepeatedIsLookedInto(t *testing.T) {
	h, heard := whatIsHeard()
	defer h.stop()
	note := []byte(strings.Repeat("1", tagSize) + "gone")
	h.say(0, "0", note)
	h.say(1, "1", note) // somebody repeats it
	hears(t, heard, 1, "gone")
	h.say(2, "2", note)
	hears(t, heard, 1, "gone") // all three have told it once, which is as it should be
	h.say(1, "1", note)
	hears(t, heard, 2, "gone", "") // something may have been lost
	h.say(1, "1", []byte(strings.Repeat("2", ballotSize)+string(note[ballotSize:])))
	hears(t, heard, 2) // the swap is proposed again
	h.say(1, "1", []byte(strings.Repeat("0", ballotSize)+string(note[ballotSize:])))
	hears(t, heard, 3) // the ballot that was heard first is made up, and may have hidden the true one
}

// The group becomes larger while somebody listens: then two are no majority any more.
func TestWhoListensCountsWithTheGroupAsItIs(t *testing.T) {
	h, heard := whatIsHeard()
	defer h.stop()
	majority := 2
	h.majority = func(uint64) int { return majority }
	h.say(0, "0", []byte(strings.Repeat("x", tagSize)+"by three"))
	h.say(1, "1", []byte(strings.Repeat("x", tagSize)+"by three"))
	hears(t, heard, 1, "by three")
	majority = 3
	h.say(0, "0", []byte(strings.Repeat("y", tagSize)+"by five"))
	h.say(1, "1", []byte(strings.Repeat("y", tagSize)+"by five"))
	hears(t, heard, 1)
	h.say(2, "2", []byte(strings.Repeat("y", tagSize)+"by five"))
	hears(t, heard, 2, "by three", "by five")
}

// A swap is accepted by the server that is being replaced, and by one of those that are in the next term already. In neither term has a
// majority accepted it, and the others agree on something else.
func TestVotesOfTwoTermsTellNoNote(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(4))
	all := cluster.Addrs()
	ctx := redistest.Within(t, time.Minute)
	q, now := openNamed(t, all[:3]...), openNamed(t, all[0], all[1], all[3])
	redistest.Put(t, q, "a", "one")
	heard, _ := redistest.Listen(t, q, "topic")
	was, at := q.roster.Load(), newBallot(1<<20)
	for _, a := range q.all {
		if v := a.ask(ctx, was, prepareScript, "a", at.String()); v.err != nil || v.refused {
			t.Fatalf("prepare: %+v", v)
		}
	}
	it := redistest.Read(t, q, "a")
	before := content{id: it.Version, version: it.Version, value: it.Value}
	swap := before.after(register.Swap{Key: "a", Old: it.Version, Next: register.NewVersion(), Value: []byte("two"),
		Notes: []register.Note{{Topic: "topic", Text: []byte("your turn")}}})
	accept := q.accept("a", accepted{ballot: at, content: swap})
	if v := accept(ctx, was, q.all[2]); v.err != nil || v.refused {
		t.Fatalf("accept: %+v", v)
	}
	reform(t, now)
	if err := q.follow(ctx, was); err != nil {
		t.Fatal(err)
	}
	if v := accept(ctx, q.roster.Load(), q.all[0]); v.err != nil || v.refused { // and the other requests never arrive
		t.Fatalf("accept: %+v", v)
	}
	storecheck.Eventually(t, "to hear anything", func() bool { return len(heard.Notes()) > 0 }) // in the end, to look
	cluster.Member(0).Kill()
	it = redistest.Read(t, now, "a")
	if notes := heard.Notes(); slices.Contains(notes, "your turn") && it.Version != swap.version {
		t.Errorf("the note of a swap was told (%q) that was not applied: there stands %q", notes, it.Value)
	}
}

// Two of five accept a swap. A listener that knows of the three that there were must not take them for a majority.
func TestWhoDoesNotKnowOfATermBelievesNoNoteOfIt(t *testing.T) {
	heard := 0
	q := &Store{}
	q.roster.Store(&roster{term: 3, seats: make([]listed, 3)})
	h := newHearsay(q.majorityIn, func(note []byte) {
		if note != nil {
			heard++
		}
	}, func() time.Duration { return time.Minute })
	defer h.stop()
	p := accepted{ballot: newBallot(1)}
	for term := uint64(2); term < 5; term++ {
		for from := range 5 {
			h.say(from, strconv.Itoa(from), []byte(tag(p, term, "key", 0)+"text"))
		}
		if heard > 0 != (term >= 3) {
			t.Fatalf("heard %d times in term %d", heard, term)
		}
	}
	if heard != 1 {
		t.Errorf("heard %d times", heard)
	}
}
