package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/internal/storecheck"
)

// said is a message with its body.
func said(typ byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{typ}, uint32(len(body)+4))) + body
}

// announced is the header of a message that has that many bytes.
func announced(typ byte, size uint32) string {
	return string(binary.BigEndian.AppendUint32([]byte{typ}, size+4))
}

var (
	letIn = said('R', "\x00\x00\x00\x00")
	ready = said('Z', "I")
)

// The library makes room for what a server announces, and keeps what it says of itself.
func TestAServerThatLiesEndsNoProcess(t *testing.T) {
	var parameters strings.Builder
	for i := range 20_000 {
		parameters.WriteString(said('S', strings.Repeat(string(rune('a'+i%26)), 1+i/26)+"\x00x\x00"))
	}
	column := said('T', "\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x19\xff\xff\xff\xff\xff\xff\x00\x00")
	for name, c := range map[string]struct{ begin, more, says string }{
		"a message of a gigabyte":       {announced('R', 1<<30-10), "", "announces a message"},
		"a notice of two":               {announced('N', 1<<31-10), "", "announces a message"},
		"a negative message":            {announced('R', 1<<32-10), "", "announces a message"},
		"notices without end":           {"", said('N', "M"+strings.Repeat("x", 60_000)+"\x00\x00"), "before it lets anybody in"},
		"parameters without end":        {letIn + ready, parameters.String(), "parameters"},
		"a parameter of a gigabyte":     {letIn + ready + announced('S', 1<<30-10), "", "announces a message"},
		"a row of a gigabyte":           {letIn + ready + column + announced('D', 1<<30-10), "", "announces a message"},
		"a row that is only announced":  {letIn + ready + column + announced('D', maxRow), "", ""},
		"a challenge without end":       {said('R', "\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"), said('R', "\x00\x00\x00\x0br=x,s=eA==,i=2147483647"), ""},
		"an answer to nothing":          {letIn + ready + said('C', "SELECT 1\x00"), ready, ""},
		"what is no PostgreSQL at all":  {"HTTP/1.1 400 Bad Request\r\n\r\n", "", "announces a message"},
		"a description of many columns": {letIn + ready + said('T', "\xff\xff"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			address := storecheck.Liar(t, c.begin, c.more)
			storecheck.Lies(t, c.says, func(ctx context.Context) (*Store, error) {
				return Open(ctx, "postgres://me:secret@"+address+"/test?sslmode=disable")
			})
		})
	}
}

// answering is the address of a server that lets anybody in, and answers each question with the same; more is said without end.
func answering(t *testing.T, begin, more string) string {
	t.Helper()
	return storecheck.Serve(t, func(c net.Conn) {
		b := make([]byte, 64<<10)
		for says, on := letIn+ready, ""; ; says, on = begin, more {
			if _, err := c.Read(b); err != nil {
				return
			}
			if storecheck.Say(c, says, on) != nil {
				return
			}
		}
	})
}

// No context ends what the library computes, so no server may have it compute for long.
func TestAServerThatWantsManyRoundsGetsNone(t *testing.T) {
	asking := func(rounds string) string {
		return storecheck.Serve(t, func(c net.Conn) {
			b := make([]byte, 64<<10)
			_, err := c.Read(b) // what it is called
			if err == nil {
				err = storecheck.Say(c, said('R', "\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"), "")
			}
			n := 0
			if err == nil {
				n, err = c.Read(b)
			}
			if _, nonce, ok := strings.Cut(string(b[:n]), "r="); ok && err == nil {
				err = storecheck.Say(c, said('R', "\x00\x00\x00\x0br="+nonce+"server,s="+strings.Repeat("A", 24)+",i="+rounds), "")
			}
			if n, _ := c.Read(b); n > 5 && err == nil {
				storecheck.Say(c, said('E', "SFATAL\x00C28P01\x00Mno, after all\x00\x00"), "")
			}
		})
	}
	for rounds, says := range map[string]string{"4096": "no, after all", "1000001": "in more than 1000000 rounds", "10000000": "in more than 1000000 rounds", "+10000000": "in more than 1000000 rounds",
		"4096" + strings.Repeat("\x00", maxText): "at length"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // it is refused at once, and not tried again
		defer cancel()
		begun := time.Now()
		s, err := Open(ctx, "postgres://me:secret@"+asking(rounds)+"/test?sslmode=disable")
		if err == nil {
			s.Close()
			t.Fatal("it was opened")
		}
		if took := time.Since(begun); !strings.Contains(err.Error(), says) || took > 10*time.Second {
			t.Errorf("%.10s rounds, after %v: %v", rounds, took, err)
		}
	}
}

// What nobody waits for is not kept, and neither is what a server says of itself without end.
func TestAServerThatLiesFillsNoMemory(t *testing.T) {
	note := said('A', "\x00\x00\x00\x01x\x00"+strings.Repeat("x", 900_000)+"\x00")
	t.Run("notes without end", func(t *testing.T) {
		c := led(t, answering(t, "", note))
		storecheck.Bounded(t, 100, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if _, err := c.Exec(ctx, "SELECT 1"); err == nil {
				t.Error("it has answered")
			}
		})
	})
	t.Run("parameters that are large", func(t *testing.T) {
		v := &vetted{Reader: strings.NewReader(said('S', "a\x00"+strings.Repeat("x", 900_000)+"\x00")), asked: new(atomic.Bool), told: make(map[string]bool)}
		if _, err := io.ReadAll(v); err == nil {
			t.Error("it is let through")
		}
	})
	t.Run("answers to LISTEN without end", func(t *testing.T) {
		c := led(t, answering(t, "", strings.Repeat(said('C', "\x00"), 10_000)))
		storecheck.Bounded(t, 250, func() {
			if err := new(listener).exec(t.Context(), c, `LISTEN "x"`); err == nil {
				t.Error("it is listened to")
			}
		})
	})
	t.Run("a page without end", func(t *testing.T) {
		col := func(typ byte) string {
			return "c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + string(typ) + "\xff\xff\xff\xff\xff\xff\x00\x00"
		}
		row := said('D', "\x00\x04\x00\x00\x00\x04\\x6b\x00\x00\x00\x011\x00\x00\x00\x04\\x76\x00\x00\x00\x011")
		c := led(t, answering(t, said('1', "")+said('2', "")+said('T', "\x00\x04"+col(17)+col(20)+col(17)+col(20)), strings.Repeat(row, 10_000)))
		s := &Store{sql: statementsFor(table{"x"})}
		storecheck.Bounded(t, 100, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := s.some(ctx, c, &memory{}, nil, nil)
			if err == nil || !strings.Contains(err.Error(), "more than the 200 rows") {
				t.Error(err)
			}
		})
	})
}

// led returns a connection to a liar.
func led(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	cfg, err := pgxpool.ParseConfig("postgres://me@" + address + "/test?sslmode=disable&default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	setUp(cfg, config{})
	c, err := pgx.ConnectConfig(t.Context(), cfg.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangUp(c) })
	return c
}

// Of several hosts, each is asked whether it is a standby, in a goroutine of the library's where nobody can recover.
func TestWhoDoesNotSayWhetherHeIsAStandbyEndsNoProcess(t *testing.T) {
	for name, says := range map[string]string{
		"nothing": said('C', "SELECT 0\x00") + ready, "no column": said('T', "\x00\x00") + said('D', "\x00\x00") + said('C', "SELECT 1\x00") + ready,
		"not even an end": ready,
	} {
		for _, attrs := range []string{"primary", "read-write", "standby", ""} {
			t.Run(name+", "+attrs, func(t *testing.T) {
				address := answering(t, says, "")
				u := "postgres://me@" + address + "," + answering(t, says, "") + "/test?sslmode=disable"
				if attrs != "" {
					u += "&target_session_attrs=" + attrs
				}
				cfg, err := pgxpool.ParseConfig(u)
				if err != nil {
					t.Fatal(err)
				}
				setUp(cfg, config{conns: 1})
				pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer pool.Close()
				_, err = pool.Acquire(within(t, 20*time.Second)) // once; Open asks again and again
				if err == nil || strings.Count(err.Error(), "does not say whether") != 2 {
					t.Errorf("it should say why, for both: %v", err)
				}
			})
		}
	}
}

// FuzzVetted reads what a server says, in pieces: the same is let through, however large the pieces are.
func FuzzVetted(f *testing.F) {
	for _, says := range []string{letIn + ready + said('S', "a\x00b\x00"), announced('R', 1<<30), announced('D', 1<<32-10), ready + announced('D', maxRow),
		said('S', strings.Repeat("x", 300)), said('N', ""), said('R', "\x00\x00\x00\x0br=x,s=eA==,i=2147483647"), said('R', "\x00\x00\x00\x0b")} {
		f.Add([]byte(says), byte(0))
		f.Add([]byte(says), byte(3))
	}
	f.Fuzz(func(t *testing.T, says []byte, step byte) {
		read := func(step int) (string, error) {
			v := &vetted{Reader: bytes.NewReader(says), asked: new(atomic.Bool), told: make(map[string]bool)}
			var got bytes.Buffer
			_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{v}, make([]byte, step))
			if len(v.told) > maxNames+1 || len(v.text) > maxText+1 || v.left > maxRow && v.err == nil {
				t.Errorf("%q: %d names, %d bytes to come", says, len(v.told), v.left)
			}
			return got.String(), err
		}
		all, err := read(len(says) + 1)
		some, errAgain := read(1 + int(step&15))
		if (err == nil) != (errAgain == nil) || !strings.HasPrefix(some, all) || err == nil && some != string(says) {
			t.Errorf("%q: %v and %v", says, err, errAgain)
		}
	})
}
