package register

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// The tokens of a line never go back, even when its register was deleted and is created again. So each begins with the epoch
// of the store, a register that counts:
//
//   - A process that makes a line reads the epoch after it has seen that the line is not there.
//   - A process that deletes a line has made sure before that the epoch is greater than the line's.
//
// A line that is deleted has been empty for longer than any request may be late (see sweep.go), so nobody who read the
// epoch before is still about to make the line.
//
// A line that is never empty for long, and uses up the tokens of an epoch, goes on with those of the next: what counts is that
// the epoch is passed before the line is deleted.
const (
	tokenBits = 28            // for the tokens of an epoch
	maxToken  = 1<<(63-8) - 1 // coord needs 8 more bits above
)

func firstToken(epoch uint64) uint64 { return epoch<<tokenBits | 1 }

// firstSeq leaves room for 2^36 swaps.
func firstSeq(epoch uint64) uint64 { return epoch << 36 }

func epochOf(token uint64) uint64 { return token >> tokenBits }

var errTokens = errors.New("the line's tokens are used up")

// epoch reads it. The first is 1.
func (d *Driver) epoch() (uint64, error) {
	_, n, err := d.readEpoch()
	return n, err
}

func (d *Driver) readEpoch() (Item, uint64, error) {
	ctx, cancel := d.request()
	defer cancel()
	it, err := d.store.Read(ctx, epochKey)
	if err != nil || it.Version.IsZero() {
		return it, 1, err
	}
	if n, ok := parseEpoch(it.Value); ok {
		return it, n, nil
	}
	return it, 0, fmt.Errorf("register %q: %w", epochKey, unread(it.Value, format))
}

// parseEpoch reads an epoch. One whose tokens would be greater than the greatest is none that we can have written.
func parseEpoch(value []byte) (n uint64, ok bool) {
	r := reader{rest: value}
	f, n := r.byte(), r.number()
	return n, f == format && !r.bad && len(r.rest) == 0 && n > 0 && n <= maxToken>>tokenBits
}

// foundEpoch writes down the first epoch, unless there is one. It is not needed; but where somebody may make registers and change none,
// he could make this one, and have all new lines refused.
func (d *Driver) foundEpoch(ctx context.Context) error {
	_, err := d.store.Swap(ctx, Swap{Key: epochKey, Next: NewVersion(), Value: encodeEpoch(1), By: d.self})
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

func encodeEpoch(n uint64) []byte { return binary.AppendUvarint([]byte{format}, n) }

// mostPassed is by how much a single line may raise the epoch. A line that is in use all the time gets that far ahead in a year,
// with ten thousand joins a second. Whoever can write to one line could use up the tokens of all others with more.
const mostPassed = 1 << 10

var errFarEpoch = errors.New("the line's tokens are far ahead of all others")

// passEpoch sees to it that the epoch is greater than n.
func (d *Driver) passEpoch(n uint64) error {
	for {
		it, now, err := d.readEpoch()
		if err != nil || now > n {
			return err
		}
		if n-now > mostPassed || n >= maxToken>>tokenBits {
			return errFarEpoch
		}
		ctx, cancel := d.request()
		_, err = d.store.Swap(ctx, Swap{Key: epochKey, Old: it.Version, Next: NewVersion(), Value: encodeEpoch(n + 1), By: d.self})
		cancel()
		if err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
}
