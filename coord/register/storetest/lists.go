package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/turnwise/turnwise/coord/register"
)

var lists = []scenario{
	{name: "shows the keys that begin with the prefix", run: listsPrefix},
	{name: "of the whole system", run: listsAll},
	{name: "of many", run: listsMany},
	{name: "ends when it is told to", run: listEnds},
	{name: "whoever is shown a register may use the store", run: listNests},
	{name: "while others swap", run: listsWhileSwapped},
}

func listsPrefix(s *scene) {
	a, b := s.open(), s.open()
	long := strings.Repeat("l", 500)
	names := append([]string{"abc", "abd", "ab/c", "ab%c", `ab\c`, "AB", "ABC", "xabc", long + "a"}, alike...)
	want := map[string]register.Item{}
	for _, name := range names {
		if _, ok := want[s.key(name)]; !ok {
			want[s.key(name)] = s.put(a, s.key(name), register.Version{}, name)
		}
	}
	for _, prefix := range append(names, "", "abcd", "ab[", "a[b", "a{b}", "a*c", "a%c", "a?c", "a.*", "^a", "a$", "nothing", strings.Repeat("n", 1000), long, long+"b") {
		got := s.listed(b, s.key(prefix))
		n := 0
		for key, it := range want {
			if !strings.HasPrefix(key, s.key(prefix)) {
				continue
			}
			n++
			s.same(fmt.Sprintf("what List of %.60q showed", prefix), got[key], it)
		}
		if len(got) != n {
			s.Errorf("List of %.60q shows %d, want %d", prefix, len(got), n)
		}
	}
}

func listsAll(s *scene) {
	a, b := s.open(), s.open()
	var all []register.Item
	for i := range 10 {
		all = append(all, s.put(a, s.key(fmt.Sprint(i)), register.Version{}, fmt.Sprint(i)))
	}
	got := s.listed(b, "")
	for _, it := range all {
		s.same("what List showed", got[it.Key], it)
	}
}

// putMany makes registers, many at a time.
func (s *scene) putMany(stores []register.Store, n int, name string) map[string]register.Item {
	s.Helper()
	want := map[string]register.Item{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := i; k < n; k += 8 {
				sw := register.Swap{Key: s.key(fmt.Sprintf("%s%d", name, k)), Next: register.NewVersion(), Value: fmt.Appendf(nil, "value %d", k)}
				it, err := s.insist(stores[k%len(stores)], sw)
				if err != nil {
					s.Errorf("Swap: %v", err)
					return
				}
				mu.Lock()
				want[it.Key] = it
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return want
}

func listsMany(s *scene) {
	stores := s.opened(2)
	n := 3000
	if testing.Short() {
		n = 500
	}
	want := s.putMany(stores, n, "k")
	for range 3 {
		got := s.listed(stores[0], s.prefix)
		if len(got) != len(want) {
			s.Fatalf("List shows %d of %d", len(got), len(want))
		}
		for key, it := range want {
			s.same("what List showed", got[key], it)
		}
	}
}

func listEnds(s *scene) {
	stores := s.opened(2)
	s.putMany(stores, 50, "k")
	for _, n := range []int{1, 2, 17, 50} {
		shown := 0
		err := stores[0].List(s.ctx, s.prefix, func(register.Item) bool {
			shown++
			return shown < n
		})
		if err != nil || shown != n {
			s.Errorf("List that was to end after %d showed %d: %v", n, shown, err)
		}
	}
	s.listed(stores[0], s.prefix) // the store is as good as before
}

func listNests(s *scene) {
	stores := s.opened(2)
	want := s.putMany(stores, 40, "k")
	for _, store := range stores[:1] {
		ctx, cancel := s.while()
		defer cancel()
		shown := 0
		err := store.List(ctx, s.prefix, func(it register.Item) bool {
			shown++
			s.stands(store, want[it.Key])
			s.remove(store, it)
			if shown%10 == 0 {
				_ = store.List(ctx, s.key("nothing"), func(register.Item) bool { return true })
			}
			return true
		})
		if err != nil || shown != len(want) {
			s.Errorf("List showed %d of %d: %v", shown, len(want), err)
		}
	}
	if left := s.listed(stores[0], s.prefix); len(left) > 0 {
		s.Errorf("%d are left", len(left))
	}
}

// history remembers which versions stood in which registers.
type history struct {
	mu   sync.Mutex
	keys map[register.Version]string
}

// of takes down what a swap is about to write, and returns the swap.
func (h *history) of(sw register.Swap) register.Swap {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[sw.Next] = sw.Key
	return sw
}

func (h *history) stood(it register.Item) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keys[it.Version] == it.Key
}

// Some registers stand still, some are swapped all the time, and some come and go.
func listsWhileSwapped(s *scene) {
	stores := s.opened(3)
	still := s.putMany(stores, 100, "still")
	busy := s.putMany(stores, 30, "busy")
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	past := &history{keys: map[register.Version]string{}}
	for _, it := range busy {
		past.of(register.Swap{Key: it.Key, Next: it.Version})
	}
	var others sync.WaitGroup
	for i, store := range stores {
		mine := map[string]register.Item{} // each has its own registers
		for k := i; k < len(busy); k += len(stores) {
			key := s.key(fmt.Sprintf("busy%d", k))
			mine[key] = busy[key]
		}
		others.Go(func() { s.swapAll(ctx, store, mine, past) })
		others.Go(func() { s.comeAndGo(ctx, store, fmt.Sprintf("fleeting%d", i), past) })
	}
	for range 20 {
		s.listAmongSwaps(stores[0], still, busy, past)
		if s.Failed() {
			break
		}
	}
	cancel()
	others.Wait()
}

// swapAll swaps registers until ctx ends.
func (s *scene) swapAll(ctx context.Context, store register.Store, mine map[string]register.Item, past *history) {
	for n := 0; ctx.Err() == nil; n++ {
		for key, it := range mine {
			next, err := s.insist(store, past.of(register.Swap{Key: key, Old: it.Version, Next: register.NewVersion(), Value: fmt.Append(nil, n)}))
			if err != nil {
				s.Errorf("Swap: %v", err)
				return
			}
			mine[key] = next
		}
	}
}

// comeAndGo makes and deletes registers until ctx ends.
func (s *scene) comeAndGo(ctx context.Context, store register.Store, name string, past *history) {
	for n := 0; ctx.Err() == nil; n++ {
		key := s.key(fmt.Sprintf("%s-%d", name, n%50))
		it, err := s.insist(store, past.of(register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("x")}))
		if err == nil {
			_, err = s.insist(store, register.Swap{Key: it.Key, Old: it.Version})
		}
		if err != nil {
			s.Errorf("Swap: %v", err)
			return
		}
	}
}

// listAmongSwaps lists once, and checks what List shows.
func (s *scene) listAmongSwaps(store register.Store, still, busy map[string]register.Item, past *history) {
	got := map[string]register.Item{}
	err := store.List(s.ctx, s.prefix, func(it register.Item) bool {
		got[it.Key] = it
		return true
	})
	if err != nil {
		s.Errorf("List: %v", err)
		return
	}
	for key, it := range still {
		s.same("what List showed of one that stands still", got[key], it)
	}
	for key := range busy {
		if _, ok := got[key]; !ok {
			s.Errorf("List does not show %q, which is swapped and stands all the time", key)
		}
	}
	for key, it := range got {
		if _, ok := still[key]; !ok && !past.stood(it) {
			s.Errorf("List shows a version that never stood there: %s", brief(it))
		}
	}
}
