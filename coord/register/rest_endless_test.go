package register

import (
	"context"
	"errors"
	"testing"
	"time"
)

// endlessRest is a store that lists sessions which never were, and which all rest.
type endlessRest struct{ Store }

func (endlessRest) List(_ context.Context, _ string, yield func(Item) bool) error {
	h := heartbeat{ttl: 20 * time.Second, usual: time.Second, at: time.Now()}
	for i := range 10_000 {
		value := append(h.encode(), make([]byte, i)...)
		if !yield(Item{Key: sessionID(NewVersion()).key(), Version: NewVersion(), Value: value}) {
			return nil
		}
	}
	return errors.New("more sessions than anybody has")
}

func TestASweeperKeepsNothingOfAListOfSleepersWithoutAnEnd(t *testing.T) {
	d := new(Driver)
	d.store = noticing{endlessRest{}, d}
	s := &sweeper{d: d, seen: make(map[sessionID]*sighting)}
	if _, _, err := s.look(t.Context()); err == nil {
		t.Fatal("the list has an end")
	}
	size := 0
	for _, it := range s.rest {
		size += len(it.Value)
	}
	if len(s.rest) > 0 {
		t.Errorf("%d sessions are kept in mind, with %d MB", len(s.rest), size>>20)
	}
}
