package memcached

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// fine is what a server says that will do.
const fine = "STAT time 100\r\nSTAT version 1.6.38\r\nSTAT item_size_max 1073741824\r\nSTAT cas_enabled yes\r\nSTAT evictions off\r\nEND\r\n"

// Whatever a server says, it takes little memory, and opening it ends with its context.
func TestAServerThatLiesTakesLittleMemory(t *testing.T) {
	for name, c := range map[string]struct {
		begin, more string
		says        string
	}{
		"a line without end":         {"", strings.Repeat("x", 64<<10), "a line of more than"},
		"a statistic without end":    {"STAT x ", strings.Repeat("x", 64<<10), "a line of more than"},
		"statistics without end":     {"", strings.Repeat("STAT xxxxxxxxx 1\r\n", 1000), "says more than"},
		"other statistics each time": {"", "STAT a" + strings.Repeat("1 1\r\nSTAT b", 1000) + " 1\r\n", "says more than"},
		"an item of a gigabyte":      {fine + fine + "VA 1073741824 c1\r\n", "", "no item of ours"},
		"an item of two gigabytes":   {fine + fine + "VA 2147483648 c1\r\n", "", "the server answers"},
		"an item of a negative size": {fine + fine + "VA -1 c1\r\n", "", "the server answers"},
		"an item that is only said":  {fine + fine + "VA 33554432 c1\r\n", "", ""},
		"an item without end":        {fine + fine + "VA 100 c1\r\n", strings.Repeat("x", 1000), "as long as it says"},
	} {
		t.Run(name, func(t *testing.T) {
			address := storecheck.Liar(t, c.begin, c.more)
			storecheck.Bounded(t, 100, func() {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				_, err := Open(ctx, address)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("open: %v, and should say %q", err, c.says)
				}
				if denied := errors.Is(err, driver.ErrDenied); denied != strings.Contains(c.says, "more than") {
					t.Errorf("open: %v; denied: %v", err, denied)
				}
			})
		})
	}
}

// Many items at once are no way around the bound on one.
func TestWhatAServerAnswersInOneTripIsBounded(t *testing.T) {
	item := "VA 30000000 c1\r\n" + strings.Repeat("x", 30_000_000) + "\r\n"
	c := &conn{r: bufio.NewReader(strings.NewReader(strings.Repeat(item, 6)))}
	room, read := maxAnswers, 0
	for {
		a, err := c.read(room)
		if err != nil {
			if !strings.Contains(err.Error(), "no item of ours") {
				t.Error(err)
			}
			break
		}
		room -= len(a.value)
		read++
	}
	if read != 4 {
		t.Errorf("%d items were read", read)
	}
	s := &Store{}
	for largest, want := range map[int64]int{1<<20 - 4<<10: 100, maxValue: 3} {
		s.largest.Store(largest)
		if got := s.page(); got != want {
			t.Errorf("with values of %d bytes, a page has %d", largest, got)
		}
	}
}

// FuzzAnswers reads what a server answers: it never fails but with an error, and takes no more than it has room for.
func FuzzAnswers(f *testing.F) {
	for _, says := range []string{"VA 3 c7\r\nabc\r\n", "VA 1073741824 c1\r\n", "VA -1\r\n", "HD c5\r\n", "EN\r\n", "NS\r\nEX\r\nNF\r\n",
		"SERVER_ERROR out of memory storing object\r\n", "CLIENT_ERROR unauthenticated\r\n", strings.Repeat("x", 20<<10), "VA\r\n", "VA 2 c1 c2\r\nabcd", "\n"} {
		f.Add([]byte(says))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		c := &conn{r: bufio.NewReaderSize(strings.NewReader(string(says)), 16<<10)}
		for range 100 {
			a, err := c.read(1 << 20)
			if err != nil {
				break
			}
			if len(a.value) > len(says) || len(a.value) > 1<<20 {
				t.Fatalf("%d bytes of %d", len(a.value), len(says))
			}
			it, _, err := decode(&memory{}, a.value)
			if err == nil && len(it.Key)+len(it.Value) > len(a.value) {
				t.Errorf("%q becomes %q and %q", a.value, it.Key, it.Value)
			}
			if all, err := decodeShelf(&memory{}, a); err == nil && len(all) > len(a.value) {
				t.Errorf("%q becomes %d keys", a.value, len(all))
			}
			parseMark(a.value)
		}
	})
}

// FuzzStats reads what a server says of itself: whatever it is, the statistics are no longer than what was said, and a server
// is taken or refused.
func FuzzStats(f *testing.F) {
	for _, says := range []string{fine + fine, "END\r\n", "STAT\r\n", "STAT x\r\nEND\r\n", "STAT x 1 2 3\r\nEND\r\nEND\r\n", "ERROR\r\n", "\r\n",
		"SERVER_ERROR busy\r\n", "CLIENT_ERROR unauthenticated\r\n", "ERROR Too many open connections\r\n", strings.Repeat("STAT x ", 5000),
		strings.Replace(fine, "1.6.38", "-1.99999999999999999999.x", 1) + strings.Replace(fine, "1073741824", "-9223372036854775808", 1)} {
		f.Add([]byte(says))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		c := &conn{r: bufio.NewReaderSize(strings.NewReader(string(says)), 16<<10), w: bufio.NewWriter(io.Discard)}
		var said [2]map[string]string
		for i := range said {
			var err error
			if said[i], err = c.stats(context.Background(), ""); err != nil {
				return
			}
			size := 0
			for k, v := range said[i] {
				size += len(k) + len(v)
			}
			if size > len(says) {
				t.Fatalf("%d bytes of %d", size, len(says))
			}
		}
		s := &Store{}
		if err := s.checkSettings(said[0], said[1]); err == nil && (s.largest.Load() < 1 || s.largest.Load() > maxValue || s.page() < 1 || s.shelfSize() < 0) {
			t.Errorf("it keeps %d bytes, %d on a page, a shelf of %d", s.largest.Load(), s.page(), s.shelfSize())
		}
	})
}
