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
