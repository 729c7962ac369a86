package lines

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord"
)

func TestHowLongATurnTakes(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	queue := func(tokens ...int) (all []coord.Node) {
		for i, n := range tokens {
			all = append(all, coord.Node{Token: coord.Token(n), Holds: i == 0})
		}
		return all
	}
	t.Run("three turns in thirty seconds", func(t *testing.T) {
		var p pace
		p.observe(queue(1, 2, 3, 4, 5), at(0), queue(2, 3, 4, 5), at(10))
		p.observe(queue(2, 3, 4, 5), at(10), queue(2, 3, 4, 5), at(20))
		_, ok := p.turn()
		assert.False(t, ok, "one turn says nothing")
		p.observe(queue(2, 3, 4, 5), at(20), queue(4, 5), at(30))
		took, ok := p.turn()
		assert.True(t, ok)
		assert.Equal(t, 10*time.Second, took)
	})
	t.Run("while nobody waits nothing is learnt", func(t *testing.T) {
		var p pace
		for i := range 10 {
			p.observe(queue(i), at(i*60), queue(i+1), at(i*60+60))
		}
		_, ok := p.turn()
		assert.False(t, ok)
	})
	t.Run("who gives up had no turn", func(t *testing.T) {
		var p pace
		for i := range 10 {
			p.observe(queue(1, 2, 3), at(i), queue(1, 2), at(i+1))
		}
		_, ok := p.turn()
		assert.False(t, ok)
	})
	t.Run("what nobody looked at is not counted", func(t *testing.T) {
		var p pace
		p.observe(queue(1, 2, 3, 4, 5), at(0), queue(5), at(3600))
		_, ok := p.turn()
		assert.False(t, ok)
	})
	t.Run("the past fades", func(t *testing.T) {
		var p pace
		for i := range 100 {
			p.observe(queue(i, i+1), at(i), queue(i+1, i+2), at(i+1))
		}
		for i := range 11 {
			p.observe(queue(200, 201), at(100+60*i), queue(200, 201), at(160+60*i))
		}
		_, ok := p.turn()
		assert.False(t, ok)
		assert.LessOrEqual(t, len(p.steps), paceSteps)
	})
}

func TestAGuessIsRound(t *testing.T) {
	for d, want := range map[time.Duration]int{
		0: 1, 100 * time.Millisecond: 1, 3400 * time.Millisecond: 3, 13 * time.Second: 15, 64 * time.Second: 60,
		1234 * time.Second: 1260, 5000 * time.Second: 4800,
	} {
		assert.Equal(t, want, roundly(d), d)
	}
}
