package server

import (
	"fmt"

	"github.com/turnwise/turnwise/coord/register"
)

// MaxValue is the largest value of a register. Redis takes 512 MB, but a value holds up everybody else long before it is
// that large.
const MaxValue = 8 << 20

// CheckValue refuses a value that is too large.
func CheckValue(value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("%w: it has %d bytes, and %d are the most", register.ErrTooLarge, len(value), MaxValue)
	}
	return nil
}
