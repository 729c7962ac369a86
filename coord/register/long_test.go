package register_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// However a line grows: what nobody would read is not written.
func TestALineThatNobodyWouldReadIsNotWritten(t *testing.T) {
	for _, c := range []struct {
		owner int
		want  error
	}{{1 << 20, nil}, {32 << 20, register.ErrTooLarge}} {
		d := register.New(memory.NewStore())
		s, err := d.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock", Owner: driver.Owner{Label: strings.Repeat("x", c.owner)}})
		if !errors.Is(err, c.want) {
			t.Errorf("a label of %d bytes: %v", c.owner, err)
		}
		if _, err := d.Line(t.Context(), "line"); err != nil {
			t.Errorf("the line cannot be read: %v", err)
		}
		d.Close(t.Context())
	}
}
