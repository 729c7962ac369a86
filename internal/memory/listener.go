package memory

import "sync"

// listener hears what it is told, one thing after the other.
type listener struct {
	hear func(note []byte)
	link *Link // through which it hears; nil: none
	stop chan struct{}

	mu   sync.Mutex
	told []func()
	more chan struct{}
}

func newListener(hear func([]byte), link *Link) *listener {
	return &listener{hear: hear, link: link, stop: make(chan struct{}), more: make(chan struct{}, 1)}
}

// tell has something done once everything that was told before has been heard.
func (l *listener) tell(do func()) {
	l.mu.Lock()
	l.told = append(l.told, do)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *listener) run() {
	for {
		select {
		case <-l.more:
		case <-l.stop:
			return
		}
		l.mu.Lock()
		told := l.told
		l.told = nil
		l.mu.Unlock()
		for _, do := range told {
			if !l.mayHear() {
				return
			}
			do()
		}
	}
}

// mayHear waits while the link is cut. It returns false if nobody listens any more.
func (l *listener) mayHear() bool {
	if l.link != nil && !l.link.pass(l.stop) {
		return false
	}
	select {
	case <-l.stop:
		return false
	default:
		return true
	}
}
