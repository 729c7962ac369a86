package quorum

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func two() int { return 2 }

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
		tag[ballotSize], tag[ballotSize+1] = byte(i), byte(i>>8)
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
	h.majority = func() int { return majority }
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
