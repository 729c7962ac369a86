package mysql

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// packed makes packets of texts, numbered from seq.
func packed(seq byte, bodies ...string) (all string) {
	for _, b := range bodies {
		all += string([]byte{byte(len(b)), byte(len(b) >> 8), byte(len(b) >> 16), seq}) + b
		seq++
	}
	return all
}

// greeting is MariaDB's, as far as the library looks at it: protocol 4.1, native passwords.
var greeting = packed(0, "\x0a10.11.0-MariaDB\x00\x01\x00\x00\x00abcdefgh\x00\x00\x82\x21\x02\x00\x08\x00\x15"+strings.Repeat("\x00", 10)+
	"abcdefghijkl\x00mysql_native_password\x00")

// column is what is said of a column.
const column = "\x03def\x00\x00\x00\x01a\x00\x0c\x21\x00\x00\x01\x00\x00\xfd\x00\x00\x00\x00\x00"

var well = packed(2, "\x00\x00\x00\x02\x00\x00\x00")

// lying is the address of a server that takes anybody and answers each query of ours with the same; more is said without end.
func lying(t *testing.T, begin, more string) string {
	return storecheck.Serve(t, func(c net.Conn) {
		io.WriteString(c, greeting)
		for r, n := bufio.NewReader(c), 0; ; n++ {
			var header [4]byte
			if _, err := io.ReadFull(r, header[:]); err != nil {
				return
			}
			command := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
			if _, err := io.ReadFull(r, command); err != nil {
				return
			}
			switch text := string(command); { // what comes before our first query
			case n == 0:
				io.WriteString(c, well)
			case strings.HasPrefix(text, "\x03SET"):
				io.WriteString(c, packed(1, well[4:]))
			case strings.Contains(text, "SELECT @@max_allowed_packet"):
				io.WriteString(c, packed(1, "\x01", column, "\xfe\x00\x00\x02\x00", "\x0816777216", "\xfe\x00\x00\x02\x00"))
			default:
				storecheck.Say(c, begin, more)
			}
		}
	})
}

// The library makes room for what a server announces.
func TestAServerThatLiesEndsNoProcess(t *testing.T) {
	var settings strings.Builder
	for i := range 1 << 20 {
		settings.WriteString(packed(byte(5+i), fmt.Sprintf("\x07%07d\x011", i)))
	}
	large := "\xff\xff\xff\x00" + strings.Repeat("x", 1<<24-1)
	for name, c := range map[string]struct{ address, says string }{
		"packets without end":              {storecheck.Liar(t, "", large), "more than a table of ours"},
		"no greeting but a byte":           {storecheck.Liar(t, packed(0, "\x0a"), ""), "ends too soon"},
		"half a greeting":                  {storecheck.Liar(t, greeting[:4]+"\x0ax\x00"+greeting[7:20], ""), ""},
		"a short greeting":                 {storecheck.Liar(t, packed(0, "\x0ax\x00abcdabcdefgh\x00\xff\xff"), ""), "ends too soon"},
		"an error without a text":          {storecheck.Liar(t, packed(0, "\xff\x01\x00"), ""), "error without a text"},
		"an empty packet":                  {storecheck.Liar(t, packed(0, ""), ""), ""},
		"a billion columns":                {lying(t, packed(1, "\xfe\x00\xca\x9a\x3b\x00\x00\x00\x00"), ""), "more than 64 columns"},
		"all the columns there are":        {lying(t, packed(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"), ""), "more than 64 columns"},
		"sixteen million columns":          {lying(t, packed(1, "\xfd\xff\xff\xff"), ""), "more than 64 columns"},
		"a file is wanted":                 {lying(t, packed(1, "\xfb/etc/passwd"), ""), "a file of ours"},
		"rows without end":                 {lying(t, packed(1, "\x01", column, "\xfe\x00\x00\x02\x00"), strings.Repeat(packed(4, slices.Repeat([]string{"\x01x"}, 256)...), 100)), ""},
		"settings without end":             {lying(t, packed(1, "\x02", column, column, "\xfe\x00\x00\x02\x00"), settings.String()), "more settings than"},
		"a column that ends too soon":      {lying(t, packed(1, "\x01", "\x03def"), ""), "ends too soon"},
		"an answer that ends too soon":     {lying(t, packed(1, "\x00"), ""), ""},
		"a password that is asked for oft": {storecheck.Liar(t, greeting+packed(2, "\xfemysql_native_password\x00abcdefghijklmnopqrst\x00"), packed(4, "\xfemysql_native_password\x00abcdefghijklmnopqrst\x00")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			storecheck.Lies(t, c.says, func(ctx context.Context) (*Store, error) { return Open(ctx, "me:secret@tcp("+c.address+")/test") })
		})
	}
}

// More rows than were asked for are small, but each of them becomes a register.
func TestAPageThatDoesNotEndTakesLittleMemory(t *testing.T) {
	address := lying(t, packed(1, "\x04", column, column, column, column, "\xfe\x00\x00\x02\x00"), strings.Repeat(packed(7, slices.Repeat([]string{"\x01k\x011\x01v\x011"}, 256)...), 100))
	cfg, err := parse("me@tcp("+address+")/test", logger(t))
	if err != nil {
		t.Fatal(err)
	}
	vet(cfg)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{config: config{conns: 1}, sql: statementsFor(table{"x"}), known: storekit.NewKnown[*memory]()}
	s.pool = s.newPool(connector)
	defer s.Close()
	storecheck.Bounded(t, 100, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := s.pool.Do(ctx, func(c *conn) error { _, err := s.some(ctx, c, nil, nil); return err })
		if err == nil || !strings.Contains(err.Error(), "more than the 200 rows") {
			t.Error(err)
		}
	})
}

// The library joins packets of the largest size, and reads rows for as long as there are any.
func TestWhatAServerSaysIsBounded(t *testing.T) {
	for size, most := range map[int]int{whole: maxRow, 1 << 20: maxAnswer} {
		v, said := &vetted{asked: true, packet: packet{number: 1}}, 0
		body := make([]byte, size)
		for v.err == nil && said <= 2*most {
			v.take([]byte{byte(size)})
			v.take([]byte{byte(size >> 8)})
			v.take([]byte{byte(size >> 16)})
			v.take([]byte{0})
			for left := body; len(left) > 0 && v.err == nil; {
				left = left[v.take(left):]
			}
			said += size
		}
		if v.err == nil || said > most+size {
			t.Errorf("in packets of %d it may say %d bytes: %v", size, said, v.err)
		}
	}
}

// FuzzVetted reads what a server says, in pieces: the same is let through, however large the pieces are.
func FuzzVetted(f *testing.F) {
	for _, says := range []string{greeting, greeting + well, packed(0, "\x0a"), packed(0, "\xff"), packed(1, "\xfb/etc/passwd"), packed(1, "", "", "x"), packed(0, "\x000")} {
		f.Add([]byte(says), byte(0))
		f.Add([]byte(says), byte(3))
	}
	f.Fuzz(func(t *testing.T, says []byte, step byte) {
		read := func(step int) (n int, err error) {
			v := &vetted{}
			for i := 0; i < len(says) && v.err == nil; {
				to := min(i+step, len(says))
				for i < to && v.err == nil {
					taken := v.take(says[i:to])
					if taken < 1 || taken > to-i {
						t.Fatalf("%d bytes of %d", taken, to-i)
					}
					i += taken
				}
				n = v.packet.number
			}
			return n, v.err
		}
		n, err := read(len(says) + 1)
		again, errAgain := read(1 + int(step&15))
		if n != again || (err == nil) != (errAgain == nil) {
			t.Errorf("%q: %d packets, %v; in pieces %d, %v", says, n, err, again, errAgain)
		}
	})
}
