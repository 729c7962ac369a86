package register_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// counted counts the reads of data, and of lines.
type counted struct {
	register.Store
	data, lines atomic.Int64
}

func (c *counted) Read(ctx context.Context, key string) (register.Item, error) {
	switch {
	case strings.HasPrefix(key, "data/"):
		c.data.Add(1)
	case strings.HasPrefix(key, "line/"):
		c.lines.Add(1)
	}
	return c.Store.Read(ctx, key)
}

// Whoever may write to a line may name data that is not there, for each node.
func TestDataThatIsNotThereCostsAReaderLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 10_000
		store := memory.NewStore()
		forged := register.Swap{Key: "line/forged", Next: register.NewVersion(), Value: register.LineWithDataAside(nodes)}
		if _, err := store.Swap(t.Context(), forged); err != nil {
			t.Fatal(err)
		}
		link := &counted{Store: store}
		d, s := open(t, link)
		defer shut(t, d)
		all, err := d.Line(t.Context(), "forged")
		if err != nil || len(all) != nodes {
			t.Errorf("%d nodes are seen, %v", len(all), err)
		}
		if data, lines := link.data.Load(), link.lines.Load(); data > 100 || lines > 3 {
			t.Errorf("that took %d reads of data, and %d of the line", data, lines)
		}
		long := bytes.Repeat([]byte("x"), 1000)
		if _, _, err := s.Join(t.Context(), driver.Entry{Line: "orders", Kind: rules.Lock, Data: long}); err != nil {
			t.Fatal(err)
		}
		if all, err := d.Line(t.Context(), "orders"); err != nil || len(all) != 1 || !bytes.Equal(all[0].Data, long) {
			t.Errorf("in another line stands %.100q, %v", fmt.Sprint(all), err)
		}
	})
}

// There is only so much room for what the nodes of a line say. What has none need not be read.
func TestDataForWhichThereIsNoRoomIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, each = 100, 16 << 20
		store := memory.NewStore()
		forged := register.Swap{Key: "line/forged", Next: register.NewVersion(), Value: register.LineWithDataAside(nodes)}
		if _, err := store.Swap(t.Context(), forged); err != nil {
			t.Fatal(err)
		}
		large := make([]byte, each)
		for _, key := range register.AsideKeys(nodes) {
			if _, err := store.Swap(t.Context(), register.Swap{Key: key, Next: register.NewVersion(), Value: large}); err != nil {
				t.Fatal(err)
			}
		}
		link := &counted{Store: store}
		d, _ := open(t, link)
		defer shut(t, d)
		all, err := d.Line(t.Context(), "forged")
		if err != nil || len(all) != nodes || len(all[0].Data) != each {
			t.Errorf("%d nodes are seen, %v", len(all), err)
		}
		if n := link.data.Load(); n > 10 {
			t.Errorf("that took %d reads of data", n)
		}
	})
}

// meanwhile is a store in which something is done whenever what a node says is about to be read.
type meanwhile struct {
	register.Store
	do func()
}

func (m *meanwhile) Read(ctx context.Context, key string) (register.Item, error) {
	if strings.HasPrefix(key, "data/") {
		m.do()
	}
	return m.Store.Read(ctx, key)
}

// Who leaves while a long line is read takes his data with him. All others are shown with theirs.
func TestWhoStaysIsShownWithHisDataHoweverManyLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, leaving = 200, 150
		store := memory.NewStore()
		owner, s := open(t, store)
		defer shut(t, owner)
		long := bytes.Repeat([]byte("x"), 1000)
		var places []driver.Place
		for range nodes {
			p, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock, Data: long})
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, p)
		}
		gone := 0
		d := register.New(&meanwhile{store, func() {
			for range 2 {
				if gone < leaving {
					leave(t, places[nodes-1-gone])
					gone++
				}
			}
		}})
		defer shut(t, d)
		all, err := d.Line(t.Context(), "line")
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		for _, n := range all {
			if bytes.Equal(n.Data, long) {
				shown++
			}
		}
		if shown < nodes-leaving {
			t.Errorf("%d are shown, %d of them with what they say; %d have stayed", len(all), shown, nodes-leaving)
		}
	})
}

func TestWhoSaysSomethingElseWithEachLookIsShownWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		owner, s := open(t, store)
		defer shut(t, owner)
		long := func(n int) []byte { return bytes.Repeat([]byte{byte('a' + n)}, 1000) }
		p, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lead, Data: long(0)})
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		d := register.New(&meanwhile{store, func() {
			if changes == 8 {
				return
			}
			changes++
			if err := p.Amend(t.Context(), rules.Lead, long(changes)); err != nil {
				t.Error(err)
			}
		}})
		defer shut(t, d)
		all, err := d.Line(t.Context(), "line")
		if err != nil || len(all) != 1 || len(all[0].Data) != 1000 {
			t.Errorf("%d nodes are seen, %v", len(all), err)
		}
	})
}
