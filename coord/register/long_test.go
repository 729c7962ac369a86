package register_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// However a line grows: what nobody would read is not written.
func TestALineThatNobodyWouldReadIsNotWritten(t *testing.T) {
	for _, c := range []struct {
		kind int
		want error
	}{{driver.MaxKind, nil}, {32 << 20, register.ErrTooLarge}} {
		d := register.New(memory.NewStore())
		s, err := d.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Join(t.Context(), driver.Entry{Line: "line", Kind: strings.Repeat("x", c.kind)})
		if !errors.Is(err, c.want) {
			t.Errorf("a kind of %d bytes: %v", c.kind, err)
		}
		if _, err := d.Line(t.Context(), "line"); err != nil {
			t.Errorf("the line cannot be read: %v", err)
		}
		d.Close(t.Context())
	}
}

// lengthy is a store with so many lines that it takes a second to list them.
type lengthy struct {
	register.Store
	spent atomic.Int64
}

func (l *lengthy) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	if strings.HasPrefix(prefix, "line/") {
		time.Sleep(time.Second)
		l.spent.Add(int64(time.Second))
	}
	return l.Store.List(ctx, prefix, yield)
}

// A session ends each second. That is no reason to look through all lines all the time.
func TestSweepsTakeOnlySoMuchOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		slow := &lengthy{Store: store}
		sweeper, _ := open(t, slow)
		defer shut(t, sweeper)
		time.Sleep(time.Minute) // so that it is the sweeper
		slow.spent.Store(0)
		const minutes = 10
		var ends []func()
		for range minutes * 60 {
			d, s := open(t, store)
			ends = append(ends, func() {
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				shut(t, d)
			})
			if len(ends) > 10 { // each lasts long enough to be seen
				ends[0]()
				ends = ends[1:]
			}
			time.Sleep(time.Second)
		}
		for _, end := range ends {
			end()
		}
		if spent, most := time.Duration(slow.spent.Load()), minutes*time.Minute/15; spent > most || spent < most/10 {
			t.Errorf("sweeps took %v of %v", spent, minutes*time.Minute)
		}
	})
}
