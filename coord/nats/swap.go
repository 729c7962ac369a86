package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// maxValue is the largest value, if the server takes messages of 1 MB or more, as it does unless max_payload says otherwise.
const maxValue = 1<<20 - notesRoom - 4<<10

func (s *Store) Swap(ctx context.Context, w register.Swap) (cur register.Item, err error) {
	err = s.with(ctx, func(c *conn, known *memory) error {
		if most := min(maxValue, c.most-notesRoom-4<<10); len(w.Value) > most {
			return fmt.Errorf("%w: %d bytes; a message of this server has room for %d", register.ErrTooLarge, len(w.Value), most)
		}
		cur, err = s.swap(ctx, c, known, &w)
		return err
	})
	return cur, failed(ctx, err, "swap %q", w.Key)
}

// swap publishes behind the message that was seen last.
func (s *Store) swap(ctx context.Context, c *conn, known *memory, w *register.Swap) (register.Item, error) {
	at := known.seen.Of(w.Key)
	sure := at.version == w.Old && (at.seq > 0 || w.Old.IsZero()) // or there was none ever: a guess, which the server checks
	return storekit.Expected[stand]{
		Look: func() (register.Item, stand, error) { return s.aged(ctx, c, known, w.Key) },
		Change: func(at stand) (register.Item, error) {
			if err := s.publish(ctx, c, known, w, at.seq); err != nil {
				return register.Item{}, err
			}
			return s.swapped(ctx, c, known, w), nil
		},
		Stale: func(err error) bool { return isCode(err, wrongSequence, wrongSequenceToo) },
	}.Swap(w, at, sure)
}

// aged returns a register with its age. That may be a bit too small, which does no harm, so that who lost a race need not ask for
// the time as well.
func (s *Store) aged(ctx context.Context, c *conn, known *memory, key string) (register.Item, stand, error) {
	cur, at, err := s.content(ctx, c, known, key)
	if err == nil && !cur.Version.IsZero() {
		var now time.Time
		now, err = s.serverTime(ctx, c, known, clockFor)
		cur.Age = max(0, now.Sub(at.since))
	}
	return cur, at, err
}

func (s *Store) swapped(ctx context.Context, c *conn, known *memory, w *register.Swap) register.Item {
	cur := register.Item{Key: w.Key, Version: w.Next}
	if w.Next.IsZero() {
		return cur
	}
	cur.Value = w.Value
	if w.Clock {
		if now, err := s.serverTime(ctx, c, known, 0); err == nil { // it is applied all the same
			cur.Clock = clock(now)
		}
	}
	return cur
}

// publish is one conditional write: the server refuses it unless seq is the number of the last message for that register. Numbers
// count for the whole stream and never come again, so a late one fails also if the register was emptied and made anew meanwhile.
func (s *Store) publish(ctx context.Context, c *conn, known *memory, w *register.Swap, seq uint64) error {
	m := natsgo.NewMsg(known.subject(s.root, w.Key))
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(seq, 10))
	m.Data = slices.Concat(w.Next[:], w.Value)
	if w.Next.IsZero() {
		m.Data = w.Next[:]
		m.Header.Set(ttlHeader, emptyFor.String())
	}
	if len(w.Notes) > 0 {
		m.Header.Set(notesHeader, encodeNotes(w.Notes))
	}
	before := known.last.Load()
	answer, err := c.request(ctx, m)
	switch {
	case errors.Is(err, natsgo.ErrNoResponders): // a server that is about to end takes JetStream down first
		if _, err := s.still(ctx, c, known, nil); err != nil {
			return err
		}
		return errors.New("JetStream did not take it")
	case errors.Is(err, natsgo.ErrMaxPayload): // it takes less by now
		return fmt.Errorf("%w: %w", register.ErrTooLarge, err)
	}
	if err != nil {
		return err
	}
	var ack struct {
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
	}
	if err := decode(answer.Data, &ack); err != nil {
		return err
	}
	if ack.Stream != s.root {
		return errNobody
	}
	if int64(ack.Seq) <= before {
		return s.hasGoneBack(known)
	}
	known.last.Saw(int64(ack.Seq))
	known.put(w.Key, stand{version: w.Next, seq: ack.Seq})
	return nil
}
