// Package mortal kills processes in the middle of what they do, however fast or slow the machine is. It is for the tests of
// what must survive that.
package mortal

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync/atomic"
	"time"
)

// silence is how long a process may say nothing. It is far longer than any machine takes for one round.
const silence = 2 * time.Minute

// Lives is what processes do that run one after another, each until it is killed.
type Lives struct {
	// Make makes a process. It writes a line when it is ready, and one at the end of each round.
	Make func() *exec.Cmd

	// Said is called with each line but the first.
	Said func(line string)

	// Most is how many rounds a process may see the end of. Most processes see far fewer.
	Most int

	start, round time.Duration // how long the last process took to be ready, and its longest round
}

// Next runs a process until it is killed: mostly at a random moment of a round, and sometimes before it is ready. When that
// is, is measured in what it and the one before it have done, so they get somewhere on any machine. It is an error if a
// process says nothing for too long.
func (l *Lives) Next() error {
	cmd := l.Make()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	kill := func() { _ = cmd.Process.Kill() }
	within := func(d time.Duration) { time.AfterFunc(rand.N(d+1), kill) }
	if rand.N(8) == 0 && l.start > 0 {
		within(l.start)
	}
	var stuck atomic.Bool
	limit := time.AfterFunc(silence, func() { stuck.Store(true); kill() })
	rounds := rand.N(1 + rand.N(1+rand.N(l.Most)))
	began, longest := time.Now(), time.Duration(0)
	for n, lines := 0, bufio.NewScanner(out); lines.Scan(); n++ {
		limit.Reset(silence)
		took := time.Since(began)
		began = began.Add(took)
		if n == 0 {
			l.start = took
		} else {
			longest = max(longest, took)
			l.round = longest
			l.Said(lines.Text())
		}
		if n == rounds {
			within(l.round)
		}
	}
	limit.Stop()
	_ = cmd.Wait()
	if stuck.Load() {
		return fmt.Errorf("a process has said nothing for %v", silence)
	}
	return nil
}
