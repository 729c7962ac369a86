package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/turnwise/turnwise/coord/driver"
)

// MaxMemo is the length of the longest memo.
const MaxMemo = driver.MaxMemo

// Memo returns the memo of a line: what a holder has written last with SetMemo; nil if there is none. It stays when nobody stands
// in the line, on a service that remembers (see docs/engines.md). Whoever reads it under a hold of its own, of a kind that shuts out all who write it, reads what is true until it
// writes it itself.
func (c *Client) Memo(ctx context.Context, name string) ([]byte, error) {
	return c.memo(ctx, c.life, name, c.driver.Memo)
}

func (c *Client) memo(ctx, life context.Context, name string, read func(ctx context.Context, line string) ([]byte, error)) ([]byte, error) {
	full, err := c.nameIn(life, name)
	if err != nil {
		return nil, &Error{Op: "memo", Line: name, Err: err}
	}
	var memo []byte
	err = c.request(ctx, func(ctx context.Context) (err error) {
		memo, err = read(ctx, full)
		return err
	})
	if err != nil {
		return nil, &Error{Op: "memo", Line: name, Err: translate(err)}
	}
	if len(memo) == 0 {
		return nil, nil
	}
	return bytes.Clone(memo[:min(len(memo), MaxMemo)]), nil // what is longer is somebody else's
}

// Forget takes away the memo of a line, whoever holds there. It is for an operator: a line with a memo is kept for ever.
func (c *Client) Forget(ctx context.Context, name string) error {
	full, err := c.openName(name)
	if err != nil {
		return &Error{Op: "forget", Line: name, Err: err}
	}
	if err := c.request(ctx, func(ctx context.Context) error { return c.driver.Forget(ctx, full) }); err != nil {
		return &Error{Op: "forget", Line: name, Err: translate(err)}
	}
	return nil
}

// Memo is Client.Memo for the line that is held. While the hold lasts it is answered also once Shutdown has been called.
func (h *Hold) Memo(ctx context.Context) ([]byte, error) {
	c, line := h.acquired.client, h.acquired.line
	if h.Err() != nil {
		return c.Memo(ctx, line)
	}
	within, cancel := h.With(ctx)
	defer cancel()
	read := c.driver.Memo
	if p, ok := h.place.(driver.Recalling); ok {
		read = func(ctx context.Context, _ string) ([]byte, error) { return p.Recall(ctx) }
	}
	memo, err := c.memo(within, context.Background(), line, read)
	if end := h.Err(); err != nil && end != nil {
		err = &Error{Op: "memo", Line: line, Err: end}
	}
	return memo, err
}

// SetMemo writes the memo of the line: a small value, of MaxMemo bytes at most, that stays when the line is empty. nil takes it
// away. The service refuses it once the hold's node has gone, so of those who held one after the other only the present one can
// write. It is for holds that exclude all others who write it.
//
// If no answer comes it returns ErrUnsettled: the memo may have been written, or be written yet, but not after another SetMemo has
// returned nil, nor once the hold's node has gone.
func (h *Hold) SetMemo(ctx context.Context, memo []byte) error {
	fail := func(err error) error { return &Error{Op: "memo", Line: h.acquired.line, Err: err} }
	if len(memo) > MaxMemo {
		return fail(fmt.Errorf("%w: a memo of %d bytes: at most %d are allowed", ErrInvalid, len(memo), MaxMemo))
	}
	h.Pin() // so that Release waits for what is under way
	ctx, cancel := h.With(ctx)
	defer cancel()
	err, top := h.Err(), h.outermost()
	if err == nil {
		err = top.beginChange(ctx)
	}
	if err != nil {
		return fail(err)
	}
	defer func() { <-top.changing }()
	if memo = bytes.Clone(memo); len(memo) == 0 {
		memo = nil
	}
	err = h.place.Remember(ctx, memo)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrRemoved):
		top.finish(lostRemoved)
	case errors.Is(err, driver.ErrSessionEnded):
		top.finish(h.session.lost())
	}
	if end := h.Err(); end != nil {
		return fail(end)
	}
	if driver.IsLasting(err) || errors.Is(err, driver.ErrUnchanged) {
		return fail(translate(err))
	}
	return fail(fmt.Errorf("%w: %w", ErrUnsettled, translate(err)))
}
