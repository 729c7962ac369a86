package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/attempt"
	"github.com/turnwise/turnwise/internal/memory"
)

// unasked is a store that nobody has asked for its memory.
type unasked struct{ register.Store }

func (unasked) Read(context.Context, string) (register.Item, error) {
	return register.Item{}, register.ErrForgot
}

func TestWhatIsWrongWithOpenIsSaidFirst(t *testing.T) {
	m := memory.NewStore()
	one := m.Link()
	for want, open := range map[string]func(testing.TB) register.Store{
		"the same store twice":  func(testing.TB) register.Store { return one },
		"must call Memory once": func(testing.TB) register.Store { return unasked{m.Link()} },
		"":                      func(testing.TB) register.Store { return m.Link() },
	} {
		a := attempt.Play(t, func(t testing.TB) { (&System{Open: open}).tryOpen(t) })
		if got := strings.Join(a.Failures(), "\n"); a.Failed() != (want != "") || !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}
