package register

import (
	"bytes"
	"context"
	"errors"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

func (p *place) Amend(ctx context.Context, kind string, data []byte) error {
	s := p.s
	if err := s.life.Stopped(ctx); err != nil {
		return err
	}
	was := p.Node()
	aside := p.aside
	if !bytes.Equal(data, was.Data) {
		var err error
		if aside, err = p.putAside(ctx, data); err != nil {
			return err
		}
	}
	var me node
	w := newWish(s, func(d *draft, t try) error {
		n, ok := d.find(s.id, p.n)
		switch {
		case !ok && t.fresh:
			return driver.ErrRemoved
		case !ok:
			return errLook
		case d.kinds[n.kind] == kind && bytes.Equal(n.data, inside(data)) && n.aside == aside:
			if me = n; !t.fresh { // such an amendment is made to hear that the node stands
				return errLook
			}
			return nil
		}
		me = d.amend(n, kind, inside(data), aside)
		return nil
	})
	w.grows = true
	if err := p.change(ctx, w); err != nil {
		return err
	}
	p.mu.Lock()
	p.shown.ID, p.shown.Kind, p.shown.Data = nodeID{s.id, p.n, me.rev}.String(), kind, bytes.Clone(data)
	p.mu.Unlock()
	p.aside = aside
	if old := p.puts.Load(); old > 0 {
		if aside == 0 {
			aside = old + 1
		}
		s.life.Go(func() { p.forgetAside(aside) })
	}
	return nil
}

// change has a wish carried out that needs the node. If the node is not there it was removed, or its session is over.
func (p *place) change(ctx context.Context, w *wish) error {
	err := p.clerk.await(ctx, p.clerk.want(w))
	if err == driver.ErrRemoved {
		if ended := p.s.alive(ctx); ended != nil {
			return ended
		}
	}
	return err
}

// putAside writes data that is too long for the line into a register of its own, and returns the number of that register
// among the node's. For short data it returns zero.
func (p *place) putAside(ctx context.Context, data []byte) (uint64, error) {
	if len(data) <= inLine {
		return 0, nil
	}
	put := p.puts.Add(1)
	swap := Swap{Key: nodeID{session: p.s.id, n: p.n}.dataKey(put), Next: NewVersion(), Value: bytes.Clone(data), By: p.s.d.self}
	for tries := 0; ; tries++ {
		rctx, cancel := p.s.d.requestFor(ctx)
		_, err := p.s.d.store.Swap(rctx, swap)
		cancel()
		if err == nil || errors.Is(err, driver.ErrDenied) || errors.Is(err, ErrTooLarge) {
			return put, err
		}
		if err := p.s.life.Stopped(ctx); err != nil {
			return 0, err
		}
		p.s.d.failed(ctx, err)
		if err := driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))); err != nil {
			return 0, err
		}
	}
}

// forgetAside deletes the node's data registers with numbers below before. What is left over goes with the session; see
// sweep.go.
func (p *place) forgetAside(before uint64) {
	for put := p.forgotten.Load() + 1; put < before; put++ {
		key := nodeID{session: p.s.id, n: p.n}.dataKey(put)
		ctx, cancel := p.s.d.request()
		it, err := p.s.d.store.Read(ctx, key)
		if err == nil && !it.Version.IsZero() {
			_, err = p.s.d.store.Swap(ctx, Swap{Key: key, Old: it.Version, By: p.s.d.self})
		}
		cancel()
		if err != nil {
			return
		}
		p.forgotten.Store(put)
	}
}
