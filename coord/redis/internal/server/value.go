package server

import (
	"fmt"

	"github.com/turnwise/turnwise/coord/register"
)

// MaxValue is the largest value of a register. Redis takes 512 MB, but a value holds up everybody else long before it is
// that large.
const MaxValue = 8 << 20

// MaxStored is the largest string that stands under a key of ours: a value, and what a store keeps beside it. Scripts return
// no more of it than one byte beyond that, which shows that it is too large.
const MaxStored = 2 * MaxValue

// CheckValue refuses a value that is too large.
func CheckValue(value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("%w: it has %d bytes, and %d are the most", register.ErrTooLarge, len(value), MaxValue)
	}
	return nil
}
