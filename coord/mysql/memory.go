package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// memory is one stretch of time in which a server has forgotten nothing.
//
// A replica that has taken over, or a dump that was loaded elsewhere, is on another server. A table that was created again
// or emptied has another identity. A disk that was put back to an earlier state shows by a log that has become shorter. The
// table has a row that says at which server its memory began: a store that finds itself at another server changes the row,
// and gives it a number that never comes again.
type memory struct {
	id       string
	here     origin
	number   int64         // the server's
	keeps    int64         // 1 if it waits for its disk before it answers
	identity string        // of the table: its first row
	recorded origin        // what the row says
	raw      []byte        // the same, as it stands there
	edition  int64         // 0 if the server is the one that the table was made at
	age      time.Duration // since the row was last written, the table was made, or the server was started
	lsn      int64
	began    time.Duration // when the server was started, by this process's clock, since it loaded this package
	reached  driverkit.Max // how far the server's log is known to have come
}

// origin is a server and, if a crash may take what it has answered, the second in which it was started, by its own clock.
type origin struct {
	server  string
	started int64
}

func (o origin) String() string {
	if o.started == 0 {
		return o.server
	}
	return fmt.Sprintf("%s, started %d", o.server, o.started)
}

func originOf(text string) origin {
	server, at, found := strings.Cut(text, ", started ")
	if !found {
		return origin{server: text}
	}
	started, _ := strconv.ParseInt(at, 10, 64)
	return origin{server, started}
}

// is reports whether two origins are the same. The server says for how many seconds it has been up, and rounds.
func (o origin) is(q origin) bool {
	return o.server == q.server && (o.started == 0) == (q.started == 0) && max(o.started-q.started, q.started-o.started) <= 2
}

func (m *memory) ID() string         { return m.id }
func (m *memory) For() time.Duration { return m.age }

// look asks a connection for the memory that it leads to.
func (s *Store) look(ctx context.Context, c *conn) (*memory, error) {
	v, err := introduce(ctx, c)
	if err != nil {
		return nil, s.table.explain(err)
	}
	if err := v.checkWrites(); err != nil {
		return nil, err
	}
	if there, err := s.table.inspect(ctx, c); err != nil {
		return nil, err
	} else if !there {
		return nil, s.table.gone()
	}
	s.largest.Store(largest(v.number("max_allowed_packet")))
	m := &memory{here: origin{server: v.here()}, number: v.number("server_id"), lsn: v.lsn(), began: v.asked - v.up()}
	marked := false
	err = c.query(ctx, s.sql.look, s.table.names(), func(row []sqldriver.Value) error {
		m.identity, m.raw, marked = text(row[0]), bytesOf(row[1]), row[0] != nil && row[1] != nil
		m.recorded, m.edition = originOf(text(row[1])), integer(row[2])
		m.age = min(storekit.Since(integer(row[3])), v.up())
		if row[6] != nil { // the server tells
			m.age = min(m.age, made(integer(row[6])))
		}
		if m.keeps = integer(row[5]); m.keeps != 1 {
			m.here.started = integer(row[4])/1e6 - v.number("uptime")
		}
		return nil
	})
	if err != nil {
		return nil, s.table.explain(err)
	}
	if m.identity != "" && !strings.HasPrefix(m.identity, layout) {
		return nil, storekit.Denied("the table %s is of another version of turnwise, or not of turnwise: name another one with WithTable", s.table.quoted())
	}
	if marked {
		m.id = fmt.Sprintf("%s/%s/%x", m.recorded, strings.TrimPrefix(m.identity, layout), uint64(m.edition))
	}
	return m, nil
}

// loaded is when the process began, more or less.
var loaded = time.Now()

// roughly is how much more than once a server's uptime, which it tells in seconds, may seem to say.
const roughly = 3 * time.Second

// made is how old a table is, rounded down, of which the server says so many microseconds, and up to a second too many. It is negative if the
// clock was set back to before that.
func made(us int64) time.Duration {
	if age := storekit.Since(us); age <= 0 {
		return age
	}
	return max(storekit.Since(us)-time.Second, 0)
}

// largest returns how long a value may be. On the way each byte may become two, and something is put around it.
func largest(packet int64) int64 { return max(packet-8<<10, 0) / 2 }

// recognize refuses a connection that does not lead to the memory that we know.
func (s *Store) recognize(ctx context.Context, c *conn, known *memory) error {
	if c.known == known {
		return nil
	}
	before := known.reached.Load()
	found, err := s.look(ctx, c)
	switch {
	case err != nil:
		c.HangUp()
		return err
	case found.id != known.id, !found.recorded.is(found.here), found.lsn < before:
		return s.forgot(known, "is", found.id, "at", found.here, "log", found.lsn, "before", before)
	}
	known.reached.Saw(found.lsn)
	s.server.Began(found.began, roughly)
	c.known = known
	return nil
}

// forgot makes all calls fail until Memory is called.
func (s *Store) forgot(known *memory, is ...any) error {
	if s.known.Forget(known) {
		s.Log.Warn("mysql: the server may have forgotten what it had stored", append([]any{"was", known.id}, is...)...)
		s.pool.Drop()
	}
	return register.ErrForgot
}

// Memory counts from the time when the table was first used, when it was noticed that the server is another than the one
// where the table was made, when the table was made or renamed, as far as the server tells, or when the server was started, whichever came
// last: before that there may have been another table of that name, or an older state of it.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	mem, err := s.recall(ctx)
	return mem, s.table.failed(ctx, err, "look at the server")
}

func (s *Store) recall(ctx context.Context) (register.Memory, error) {
	return s.known.Recall(ctx, func(last *memory) (m *memory, err error) {
		err = storekit.Query(ctx, func() error {
			return s.pool.Do(ctx, func(c *conn) (err error) {
				if m, err = s.remember(ctx, c, last); err != nil {
					c.HangUp()
				}
				return err
			})
		}, storekit.Never, isCut)
		return m, s.table.explain(err)
	})
}

// maxLooks is how often the server may be another one while it is looked at.
const maxLooks = 100

// remember looks, and writes down what is new.
func (s *Store) remember(ctx context.Context, c *conn, last *memory) (*memory, error) {
	for range maxLooks {
		before := int64(0)
		if last != nil {
			before = last.reached.Load()
		}
		m, err := s.look(ctx, c)
		if err != nil {
			return nil, err
		}
		wentBack := m.lsn < before && last != nil && last.here.is(m.here) && last.edition == m.edition
		edition := storekit.Number(register.NewVersion())
		switch {
		case m.id == "": // emptied
			_, err = c.exec(ctx, s.sql.refill, edition)
		case m.recorded.server == "" && m.edition == 0: // nobody has used it yet
			_, err = c.exec(ctx, s.sql.remember, []byte(m.here.String()), int64(0), m.edition, m.raw)
		case !m.recorded.is(m.here), wentBack:
			s.Log.Warn("mysql: the server is not what it was when the table was made, or its log was longer before", "was", m.recorded, "is", m.here)
			_, err = c.exec(ctx, s.sql.remember, []byte(m.here.String()), edition, m.edition, m.raw)
		default:
			m.reached.Saw(m.lsn)
			if last != nil && last.id == m.id {
				last.reached.Saw(m.lsn)
			}
			s.server.Began(m.began, roughly)
			return m, nil
		}
		if err != nil && !undone(err) {
			return nil, s.table.explain(err)
		}
	}
	return nil, errors.New("the row that says where the table was made does not change: is there a trigger on the table?")
}
