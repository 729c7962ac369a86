package memcached

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// A directory of keys may be short on its way, and large when it is decoded.
func TestADirectoryOfManyKeysTakesLittleMemory(t *testing.T) {
	mark := encodeMark(50, register.Version{1})
	shelf := append([]byte{format}, 1, 0, 0, 0, 0, 0, 0, 0)
	for n := uint64(0); len(shelf) < 31<<20; n++ {
		shelf = binary.BigEndian.AppendUint64(shelf, n)
		key := fmt.Appendf(nil, "%x", n)
		shelf = append(append(shelf, byte(len(key))), key...)
	}
	address := storecheck.Serve(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		shelves := 0
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			switch {
			case strings.HasPrefix(line, "stats"):
				io.WriteString(c, strings.Replace(fine, "END", "STAT uptime 99\r\nEND", 1))
			case strings.HasPrefix(line, "mg turnwise.memory"):
				fmt.Fprintf(c, "VA %d c1\r\n%s\r\n", len(mark), mark)
			case strings.HasPrefix(line, "mg turnwise.keys/") && shelves < 4:
				shelves++
				fmt.Fprintf(c, "VA %d c1\r\n", len(shelf))
				c.Write(shelf)
				io.WriteString(c, "\r\n")
			case strings.HasPrefix(line, "mg "):
				io.WriteString(c, "EN\r\n")
			default:
				io.WriteString(c, "NS\r\n")
			}
		}
	})
	s, err := Open(within(t, 10*time.Second), address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storecheck.Bounded(t, 400, func() {
		t.Log(s.List(within(t, 20*time.Second), "line/", func(register.Item) bool { return true }))
	})
}
