package register

import (
	"context"
	"errors"
	"testing"
)

// endless is a store that lists sessions which never were, other ones each time, until somebody has had enough.
type endless struct{ Store }

func (endless) List(_ context.Context, _ string, yield func(Item) bool) error {
	for range 10_000 {
		if !yield(Item{Key: sessionID(NewVersion()).key(), Version: NewVersion()}) {
			return nil
		}
	}
	return errors.New("more sessions than anybody has")
}

func TestASweeperKeepsNothingOfAListWithoutAnEnd(t *testing.T) {
	d := new(Driver)
	d.store = noticing{endless{}, d}
	s := &sweeper{d: d, seen: make(map[sessionID]*sighting)}
	for range 3 {
		if _, _, err := s.look(t.Context()); err == nil {
			t.Fatal("the list has an end")
		}
	}
	if len(s.seen) > 0 {
		t.Errorf("%d sessions are kept in mind", len(s.seen))
	}
}
