package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// whatIsHeard returns a hearsay of three acceptors, and what its listener has heard.
func whatIsHeard() (*hearsay, *[]string) {
	heard := new([]string)
	return newHearsay(2, func(note []byte) { *heard = append(*heard, string(note)) }, func() time.Duration { return time.Minute }), heard
}

func TestAMajorityMustTellTheSameText(t *testing.T) {
	h, heard := whatIsHeard()
	defer h.stop()
	tag := strings.Repeat("x", tagSize)
	h.say(0, "0", []byte(tag+"true"))
	h.say(1, "1", []byte(tag+"forged")) // by who may publish, and has heard the first
	h.say(2, "2", []byte(tag+"another"))
	assert.Empty(t, *heard)
	h.say(2, "2", []byte(tag+"true"))
	assert.Equal(t, []string{"true"}, *heard)
	h.say(0, "0", []byte(tag+"forged"))
	h.say(1, "1", []byte("short"))
	assert.Equal(t, "true", (*heard)[0])
}

// A listener looks when one of them was not heard, even if the others were: they may be away next.
func TestOneThatWasNotHeardIsAReasonToLook(t *testing.T) {
	h, heard := whatIsHeard()
	defer h.stop()
	h.say(0, "0", []byte("short"))
	assert.Empty(t, *heard)
	h.say(0, "0", nil)
	assert.Len(t, *heard, 1)
}

func TestRumoursAreBounded(t *testing.T) {
	h, heard := whatIsHeard()
	defer h.stop()
	tag := []byte(strings.Repeat("x", tagSize))
	for i := range 2 * maxTold {
		tag[ballotSize], tag[ballotSize+1] = byte(i), byte(i>>8)
		h.say(0, "0", tag)
	}
	assert.LessOrEqual(t, len(h.rumours), maxTold)
	assert.NotEmpty(t, *heard, "what is not kept may have been true, so the listener looks")
}

// Who may publish, and has heard one acceptor tell of a swap, may tell the same before the others do: then the listener looks too
// early, and must look again.
func TestANoteThatWasRepeatedIsLookedInto(t *testing.T) {
	h, heard := whatIsHeard()
	defer h.stop()
	note := []byte(strings.Repeat("1", tagSize) + "gone")
	h.say(0, "0", note)
	h.say(1, "1", note) // somebody repeats it
	assert.Equal(t, []string{"gone"}, *heard)
	h.say(2, "2", note)
	assert.Len(t, *heard, 1, "all three have told it once, which is as it should be")
	h.say(1, "1", note)
	assert.Equal(t, []string{"gone", ""}, *heard, "something may have been lost")
	h.say(1, "1", []byte(strings.Repeat("2", ballotSize)+string(note[ballotSize:])))
	assert.Len(t, *heard, 2, "the swap is proposed again")
	h.say(1, "1", []byte(strings.Repeat("0", ballotSize)+string(note[ballotSize:])))
	assert.Len(t, *heard, 3, "the ballot that was heard first is made up, and may have hidden the true one")
}
