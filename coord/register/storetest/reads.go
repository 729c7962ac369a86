package storetest

import (
	"encoding/binary"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

var reads = []scenario{
	{name: "another store sees a swap as soon as it is answered", run: swapIsSeen},
	{name: "nobody sees it go back", run: neverBack},
}

// rounds counts up to most, or, where each takes long, for as long as a scenario should take.
func (s *scene) rounds(most int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, end := 0, time.Now().Add(10*time.Second); i < most && (i < most/10 || time.Now().Before(end)); i++ {
			if !yield(i) {
				return
			}
		}
	}
}

func swapIsSeen(s *scene) {
	stores := s.opened(3)
	var stands register.Item
	for i := range s.rounds(200) {
		if s.Failed() {
			return
		}
		stands = s.put(stores[i%3], s.key("k"), stands.Version, "x")
		s.stands(stores[(i+1)%3], stands)
		s.stands(stores[(i+2)%3], stands)
		if i%10 == 9 {
			s.remove(stores[i%3], stands)
			stands = register.Item{Key: s.key("k")}
			s.stands(stores[(i+1)%3], stands)
		}
	}
}

// One client counts up. A reader that begins after a number was answered sees that or a later one.
func neverBack(s *scene) {
	stores := s.opened(3)
	var answered atomic.Uint64
	stop := make(chan struct{})
	var readers sync.WaitGroup
	defer readers.Wait()
	defer close(stop)
	for i := range 6 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := answered.Load()
				it, err := stores[i%3].Read(s.ctx, s.key("k"))
				if err != nil {
					s.Errorf("Read: %v", err)
					return
				}
				if least > 0 && len(it.Value) != 8 {
					s.Errorf("%s, want 8 bytes", brief(it))
					return
				}
				if least > 0 && binary.BigEndian.Uint64(it.Value) < least {
					s.Errorf("read %d when %d had been answered", binary.BigEndian.Uint64(it.Value), least)
					return
				}
			}
		})
	}
	var stands register.Item
	for i := range s.rounds(300) {
		if s.Failed() {
			return
		}
		n := uint64(i)
		stands = s.put(stores[n%3], s.key("k"), stands.Version, string(binary.BigEndian.AppendUint64(nil, n+1)))
		answered.Store(n + 1)
	}
}
