package zk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/zk/internal/wire"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// A list of many short names.
func TestAListOfManyNamesTakesLittleMemory(t *testing.T) {
	names := binary.BigEndian.AppendUint32(nil, 0)
	n := uint32(0)
	for ; len(names) < 31<<20; n++ {
		name := fmt.Sprintf("%x", n)
		names = append(binary.BigEndian.AppendUint32(names, uint32(len(name))), name...)
	}
	binary.BigEndian.PutUint32(names, n)
	names = append(names, make([]byte, 68)...)
	address := liar(t, 10_000, func(request []byte) []byte {
		body := make([]byte, 68+16)
		op := binary.BigEndian.Uint32(request[4:])
		switch op {
		case 12:
			body = names
		}
		b := binary.BigEndian.AppendUint32(nil, uint32(16+len(body)))
		b = append(b, request[:4]...)
		b = binary.BigEndian.AppendUint64(b, 1)
		b = binary.BigEndian.AppendUint32(b, 0)
		return append(b, body...)
	})
	storecheck.Bounded(t, 300, func() {
		c, err := Connect(storecheck.Within(t, time.Minute), []string{address}, WithTTL(10*time.Second))
		if err == nil {
			defer c.Close()
			_, err = c.Line(storecheck.Within(t, time.Minute), "a")
		}
		if !errors.Is(err, wire.ErrTooLong) {
			t.Errorf("it should say that the list is too long: %v", err)
		}
	})
}
