// Package people speaks to people, on standard error or output, and waits for nobody who does not listen: a pipe may be full from which nobody
// reads any more, and a terminal stopped by Ctrl-S. Whoever has a line must give it back all the same.
package people

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// Err is standard error, and Out standard output.
var Err, Out = To(os.Stderr), To(os.Stdout)

const (
	patience = 200 * time.Millisecond // how long a writer waits for those who read
	mostKept = 1000                   // texts that nobody has read yet
)

// errUnread says that nobody has read yet what was written before.
var errUnread = errors.New("nobody reads")

// Writer passes texts on in their order. A text that is not taken at once is passed on later, unless too many are waiting.
type Writer struct {
	to io.Writer

	mu     sync.Mutex
	kept   []*text // the first is on its way, if busy
	busy   bool
	unread bool // somebody's patience is over, and nothing was taken since
}

type text struct {
	bytes   []byte
	written chan struct{}
	err     error
}

// To returns a writer to another one, which may block.
func To(w io.Writer) *Writer { return &Writer{to: w} }

// Write waits a moment until a text is taken, but not if the one before was not.
func (w *Writer) Write(b []byte) (int, error) {
	t := &text{bytes: append([]byte(nil), b...), written: make(chan struct{})}
	w.mu.Lock()
	if len(w.kept) >= mostKept {
		w.mu.Unlock()
		return 0, errUnread
	}
	w.kept = append(w.kept, t)
	if !w.busy {
		w.busy = true
		go w.pass()
	}
	wait := patience
	if w.unread {
		wait = 0
	}
	w.mu.Unlock()
	select {
	case <-t.written:
		return len(b), t.err
	case <-time.After(wait):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-t.written:
		return len(b), t.err
	default:
		w.unread = true
		return 0, errUnread
	}
}

// pass passes on all that is kept.
func (w *Writer) pass() {
	for {
		w.mu.Lock()
		if len(w.kept) == 0 {
			w.busy = false
			w.mu.Unlock()
			return
		}
		t := w.kept[0]
		w.mu.Unlock()
		_, t.err = w.to.Write(t.bytes)
		w.mu.Lock()
		w.kept, w.unread = w.kept[1:], false
		close(t.written)
		w.mu.Unlock()
	}
}

// Flush waits until all that was written is taken, but no longer than d.
func (w *Writer) Flush(d time.Duration) {
	w.mu.Lock()
	var last *text
	if n := len(w.kept); n > 0 {
		last = w.kept[n-1]
	}
	w.mu.Unlock()
	if last == nil {
		return
	}
	select {
	case <-last.written:
	case <-time.After(d):
	}
}
