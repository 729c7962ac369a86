package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/internal/storecheck"
)

// What a server says of itself may be short on its way, and large when it is taken apart.
func TestWhatAServerSaysOfItselfTakesLittleMemory(t *testing.T) {
	var b strings.Builder
	for n := 0; b.Len() < 32<<20; n++ {
		fmt.Fprintf(&b, "%x:\n", n)
	}
	info := fmt.Sprintf("$%d\r\n%s\r\n", b.Len(), b.String())
	address := liar(t, func(command []string) string {
		if says, ok := hello(command); ok {
			return says
		}
		return info
	})
	storecheck.Bounded(t, 250, func() { refused(t, 4*time.Second, address) })
}
