package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// meddler is a transaction of somebody else on the same table.
type meddler struct {
	t  *testing.T
	c  *pgx.Conn
	tx pgx.Tx
	s  *Store
}

func meddle(t *testing.T, s *Store, url string) *meddler {
	t.Helper()
	ctx := within(t, 30*time.Second)
	m := &meddler{t: t, c: dialed(t, url), s: s}
	t.Cleanup(func() { m.c.Close(context.Background()) })
	var err error
	if m.tx, err = m.c.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *meddler) exec(sql string, args ...any) {
	m.t.Helper()
	if _, err := m.tx.Exec(within(m.t, 10*time.Second), strings.ReplaceAll(sql, "{t}", m.s.table.quoted()), args...); err != nil {
		m.t.Fatal(err)
	}
}

// waitedFor returns once somebody waits for a lock of this transaction.
func (m *meddler) waitedFor(url string) {
	m.t.Helper()
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if query(m.t, url, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE %d = ANY (pg_blocking_pids(pid))", m.c.PgConn().PID())) != "0" {
			return
		}
	}
	m.t.Fatal("nobody waits for the lock")
}

func (m *meddler) commit() {
	m.t.Helper()
	if err := m.tx.Commit(within(m.t, 10*time.Second)); err != nil {
		m.t.Fatal(err)
	}
}

type answer struct {
	it  register.Item
	err error
}

func begin(t *testing.T, s *Store, w register.Swap) chan answer {
	done := make(chan answer, 1)
	go func() {
		it, err := s.Swap(within(t, 30*time.Second), w)
		done <- answer{it, err}
	}()
	return done
}

// A statement's snapshot is older than the lock that it waits for. So what a conflict brings must be read after it.
func TestAConflictBringsWhatTheOtherHasLeft(t *testing.T) {
	url := sharedServer(t).URL()
	s := opened(t, url, WithTable(freshTable()))
	for what, sql := range map[string]string{
		"changed": `UPDATE {t} SET version = 77, value = 'theirs' WHERE key = $1`,
		"removed": `DELETE FROM {t} WHERE key = $1`,
	} {
		for _, notes := range [][]register.Note{nil, {{Topic: "t", Text: []byte("n")}}} {
			t.Run(fmt.Sprint(what, " ", len(notes)), func(t *testing.T) {
				it := put(t, s, register.Item{Key: "k " + what}, "ours")
				m := meddle(t, s, url)
				m.exec(sql, []byte(it.Key))
				done := begin(t, s, register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: []byte("too late"), Notes: notes})
				m.waitedFor(url)
				m.commit()
				a := <-done
				want := register.Item{Key: it.Key}
				if what == "changed" {
					want.Value, want.Version = []byte("theirs"), storekit.Version(77)
				}
				if !errors.Is(a.err, register.ErrConflict) || a.it.Version != want.Version || string(a.it.Value) != string(want.Value) {
					t.Errorf("it returns %+v, %v; want %+v", a.it, a.err, want)
				}
				if now := read(t, s, it.Key); now.Version != want.Version {
					t.Errorf("there stands %+v", now)
				}
				if what == "changed" {
					remove(t, s, read(t, s, it.Key))
				}
			})
		}
	}
}

// The other has given up: the swap that waited goes on.
func TestASwapThatWaitedForNothingIsApplied(t *testing.T) {
	url := sharedServer(t).URL()
	s := opened(t, url, WithTable(freshTable()))
	it := put(t, s, register.Item{Key: "k"}, "ours")
	m := meddle(t, s, url)
	m.exec(`UPDATE {t} SET version = 77 WHERE key = 'k'`)
	done := begin(t, s, register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: []byte("in time")})
	m.waitedFor(url)
	_ = m.tx.Rollback(context.Background())
	if a := <-done; a.err != nil {
		t.Errorf("it returns %+v, %v", a.it, a.err)
	}
}

// Two make a register at once. The second one waits for the first one's commit, and its snapshot does not show that row.
func TestOfTwoThatMakeARegisterOneIsToldOfTheOther(t *testing.T) {
	url := sharedServer(t).URL()
	s := opened(t, url, WithTable(freshTable()))
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprint(commits), func(t *testing.T) {
			key := fmt.Sprint("k", commits)
			m := meddle(t, s, url)
			m.exec(`INSERT INTO {t} (key, version, value) VALUES ($1, 77, 'theirs')`, []byte(key))
			done := begin(t, s, register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("ours")})
			m.waitedFor(url)
			if !commits {
				_ = m.tx.Rollback(context.Background())
				if a := <-done; a.err != nil {
					t.Errorf("it returns %+v, %v", a.it, a.err)
				}
				return
			}
			m.commit()
			if a := <-done; !errors.Is(a.err, register.ErrConflict) || a.it.Version != storekit.Version(77) {
				t.Errorf("it returns %+v, %v", a.it, a.err)
			}
		})
	}
}

// What was in the way is gone when the content is read: that is no conflict, and no success either.
func TestARegisterThatWasInTheWayForAMoment(t *testing.T) {
	url := sharedServer(t).URL()
	table := freshTable()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	var reads atomic.Int64
	cfg.ConnConfig.Tracer = tracer(func(sql string) {
		if strings.HasPrefix(sql, "SELECT version") && reads.Add(1) == 1 {
			query(t, url, "DELETE FROM "+table+" WHERE key = 'k'")
		}
	})
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := openLike(within(t, 20*time.Second), pool, WithTable(table))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	query(t, url, "INSERT INTO "+table+" (key, version, value) VALUES ('k', 77, 'theirs')")
	w := register.Swap{Key: "k", Next: register.NewVersion(), Value: []byte("ours")}
	if it, err := s.Swap(within(t, 20*time.Second), w); err != nil || it.Version != w.Next {
		t.Errorf("it returns %+v, %v", it, err)
	}
	if reads.Load() != 1 {
		t.Errorf("it was read %d times", reads.Load())
	}
}

// tracer is called before each statement.
type tracer func(sql string)

func (f tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	f(d.SQL)
	return ctx
}

func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Each try of a swap whose answer was lost may have been applied.
func TestWhatIsSentTwiceIsAppliedOnce(t *testing.T) {
	s := opened(t, sharedServer(t).URL(), WithTable(freshTable()))
	heard := make(chan string, 10)
	if _, err := s.Listen(within(t, 10*time.Second), "t", func(b []byte) { heard <- string(b) }); err != nil {
		t.Fatal(err)
	}
	first := register.Swap{Key: "k", Next: register.NewVersion(), Value: []byte("1"), Notes: []register.Note{{Topic: "t", Text: []byte("made")}}}
	second := register.Swap{Key: "k", Old: first.Next, Next: register.NewVersion(), Value: []byte("2"), Notes: []register.Note{{Topic: "t", Text: []byte("changed")}}}
	third := register.Swap{Key: "k", Old: second.Next, Notes: []register.Note{{Topic: "t", Text: []byte("gone")}}}
	for _, w := range []register.Swap{first, first, second, second, third, third} {
		if it, err := s.Swap(within(t, 10*time.Second), w); err != nil || it.Version != w.Next || string(it.Value) != string(w.Value) {
			t.Errorf("it returns %+v, %v", it, err)
		}
	}
	if it, err := s.Swap(within(t, 10*time.Second), second); !errors.Is(err, register.ErrConflict) || !it.Version.IsZero() {
		t.Errorf("a late one returns %+v, %v", it, err)
	}
	put(t, s, register.Item{Key: "k"}, "", register.Note{Topic: "t", Text: []byte("end")})
	for _, want := range []string{"made", "changed", "gone", "end"} {
		if got := hears(t, heard); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
}

func hears(t *testing.T, heard chan string) string {
	t.Helper()
	select {
	case s := <-heard:
		return s
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is heard")
		return ""
	}
}

// PostgreSQL sends equal notifications of a transaction only once, takes at most 7,999 bytes of text, and cuts off names.
func TestEveryNoteIsToldAsItWas(t *testing.T) {
	s := opened(t, sharedServer(t).URL(), WithTable(freshTable()))
	long := strings.Repeat("t", 1000)
	heard := make(chan string, 20)
	if _, err := s.Listen(within(t, 10*time.Second), long+"1", func(b []byte) {
		if b == nil {
			t.Error("some may be lost")
		}
		heard <- string(b)
	}); err != nil {
		t.Fatal(err)
	}
	var large [7000]byte
	for i := range large {
		large[i] = byte(i)
	}
	notes := []register.Note{{Topic: long + "1", Text: []byte("same")}, {Topic: long + "2", Text: []byte("not for us")}, {Topic: long + "1", Text: []byte("same")},
		{Topic: long + "1", Text: large[:]}, {Topic: long + "1"}, {Topic: long + "1", Text: large[:5900]}, {Topic: long + "1", Text: []byte{0}}}
	put(t, s, register.Item{Key: "k"}, "x", notes...)
	for _, n := range notes {
		if n.Topic == long+"1" {
			if got := hears(t, heard); got != string(n.Text) {
				t.Errorf("heard %d bytes, %.20q, want %d", len(got), got, len(n.Text))
			}
		}
	}
}

// Anybody who may connect to the database may NOTIFY. Without the right to read the table he does not know where.
func TestNobodyElseCanTellNotes(t *testing.T) {
	url := sharedServer(t).URL()
	a, b := opened(t, url, WithTable(freshTable())), opened(t, url, WithTable(freshTable()))
	heard := make(chan string, 20)
	if _, err := a.Listen(within(t, 10*time.Second), "t", func(b []byte) { heard <- string(b) }); err != nil {
		t.Fatal(err)
	}
	put(t, b, register.Item{Key: "k"}, "x", register.Note{Topic: "t", Text: []byte("of another table")})
	query(t, url, `NOTIFY "t", '0=AAAA'`)
	put(t, a, register.Item{Key: "k"}, "x", register.Note{Topic: "t", Text: []byte("ours")})
	if got := hears(t, heard); got != "ours" {
		t.Errorf("heard %q", got)
	}
}

// Who may read the table knows the channels. He may say half a note, or a note's end, before a note of ours.
func TestHalfANoteOfAStrangersHidesNone(t *testing.T) {
	url, table := sharedServer(t).URL(), freshTable()
	a, b := opened(t, url, WithTable(table)), opened(t, url, WithTable(table))
	heard := make(chan string, 100)
	if _, err := a.Listen(within(t, 10*time.Second), "t", func(b []byte) {
		if b != nil { // it looks
			heard <- string(b)
		}
	}); err != nil {
		t.Fatal(err)
	}
	knows, notify := ofAReader(t, url, table)
	it := register.Item{Key: "k"}
	for _, size := range []int{4, maxPiece, maxPiece + 1, 7000} {
		ours := strings.Repeat("o", size)
		for _, text := range []string{"", "0=", "0=AAAA", "0+AAAA", "0+" + strings.Repeat("A", 7900), "1-AAAA", "1+", "1+!"} {
			if err := notify(knows.channel("t"), text); err != nil {
				t.Fatal(err)
			}
			it = put(t, b, it, "x", register.Note{Topic: "t", Text: []byte(ours)})
			for told := ""; told != ours; {
				if told = hears(t, heard); len(told) > len(ours) {
					t.Fatalf("after %.10q, heard %d bytes instead of %d", text, len(told), len(ours))
				}
			}
		}
	}
}
