package deadlines_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

func TestARenewalCountsWithARead(t *testing.T) {
	type answer = deadlines.Answer
	for _, c := range []struct {
		name          string
		renewal, read answer
		until         int // ms
	}{
		{"renewal first", answer{Sent: at(3000), Term: 1}, answer{Sent: at(3100), Term: 1}, 3000 + 9750},
		{"read first", answer{Sent: at(3100), Term: 1}, answer{Sent: at(3000), Term: 1}, 3000 + 9750},
		{"the renewal is of a later term", answer{Sent: at(3100), Term: 2}, answer{Sent: at(3000), Term: 1}, 3000 + 9750},
		{"the read is of a later term", answer{Sent: at(3000), Term: 1}, answer{Sent: at(3100), Term: 2}, 0},
		{"no read since the grant", answer{Sent: at(3000), Term: 1}, answer{}, 9751},
		{"no renewal since the grant", answer{}, answer{Sent: at(3000), Term: 1}, 9751},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l deadlines.Lease
			assert.Equal(t, at(9751), l.Granted(answer{Sent: ms, Term: 1}, 10*time.Second))
			l.Renewed(c.renewal, 10*time.Second)
			assert.Equal(t, at(c.until), l.Read(c.read))
			assert.Equal(t, c.until == 0, l.Outdated())
			assert.Equal(t, at(c.until), l.Renewed(c.renewal, 10*time.Second), "in whatever order they are answered")
		})
	}
}

func TestAnswersThatAreLateDoNotCount(t *testing.T) {
	var l deadlines.Lease
	l.Granted(deadlines.Answer{Sent: ms, Term: 1}, 10*time.Second)
	l.Read(deadlines.Answer{Sent: at(3000), Term: 1})
	until := l.Renewed(deadlines.Answer{Sent: at(3000), Term: 1}, 10*time.Second)
	assert.Equal(t, until, l.Read(deadlines.Answer{Sent: at(2000), Term: 1}))
	assert.Equal(t, until, l.Renewed(deadlines.Answer{Sent: at(2000), Term: 1}, 10*time.Second))
}

func TestATTLThatWasCutCounts(t *testing.T) {
	var l deadlines.Lease
	l.Granted(deadlines.Answer{Sent: ms, Term: 1}, 10*time.Second)
	l.Read(deadlines.Answer{Sent: at(3000), Term: 1})
	assert.Equal(t, at(3000+4850), l.Renewed(deadlines.Answer{Sent: at(3000), Term: 1}, 5*time.Second))
}

// A leader that was replaced while it stood still renews a lease, and a read finds out.
func ExampleLease() {
	var l deadlines.Lease
	fmt.Println(l.Granted(deadlines.Answer{Sent: 1 * time.Second, Term: 4}, 10*time.Second))
	l.Read(deadlines.Answer{Sent: 4 * time.Second, Term: 5})
	fmt.Println(l.Renewed(deadlines.Answer{Sent: 4 * time.Second, Term: 4}, 10*time.Second), l.Outdated())
	fmt.Println(l.Renewed(deadlines.Answer{Sent: 5 * time.Second, Term: 5}, 10*time.Second), l.Outdated())
	// Output:
	// 10.75s
	// 0s true
	// 13.75s false
}
