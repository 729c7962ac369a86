package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// memory is one stretch of time in which a server has forgotten nothing.
//
// A standby that was promoted has another timeline, and so has a server that was restored from an archive. A dump that was
// loaded is on a server with another identifier. A table that was created again or emptied has another identity. A disk that
// was put back to an earlier state shows by a log that has become shorter. The table has a row that says at which server its
// memory began: a store that finds itself at another server changes the row, and gives it a number that never comes again.
type memory struct {
	id         string
	server     string        // its identifier, and the time of its start if it does not wait for the disk or says no identifier
	timeline   string        // 8 hexadecimal digits, which grow
	identity   string        // of the table: its first row
	edition    int64         // 0 if the server is the one that the table was made at
	age        time.Duration // since the row was last written, or the server was started
	recorded   string        // what the row says
	sameSchema bool          // the schema, the table and the database have not been changed since the row was written
	lsn        int64
	pooled     bool
	oid        int64         // the table's
	database   int64         // its oid: a copy of a database has tables with the same
	exposed    bool          // others may create in the table's schema
	reached    driverkit.Max // how far the server's log is known to have come
	started    atomic.Int64  // when the server was started last, us
}

func (m *memory) ID() string         { return m.id }
func (m *memory) For() time.Duration { return m.age }

// here returns what the row must say.
func (m *memory) here() string { return m.server + "/" + m.timeline }

// isBehind reports whether m is of a primary that another one has taken over from.
func (m *memory) isBehind(known *memory) bool {
	return known != nil && m.server == known.server && m.timeline < known.timeline
}

var errOldPrimary = errors.New("this server was primary before the one that we know, and has not noticed: stop it, or point its name to the new one")

// look asks a new connection for the memory that it leads to.
func (s *Store) look(ctx context.Context, c *pgx.Conn) (*memory, error) {
	g, err := greet(ctx, c, s.plain)
	if err == nil && !g.pooler {
		err = setSession(ctx, c, s.plain)
	}
	if err != nil {
		return nil, s.table.explain(err)
	}
	at, err := s.table.inspect(ctx, c, s.owner)
	if err == nil && at == nil {
		err = s.table.gone()
	}
	if err != nil {
		return nil, err
	}
	m := &memory{pooled: g.pooler, oid: at.oid, exposed: at.exposed}
	var started int64
	var first, recorded *string
	var edition, age *int64
	_, err = guard{table: s.table, oid: m.oid}.run(ctx, c, s.sql.look, nil, func(r pgx.Rows) error {
		return r.Scan(&m.timeline, &m.lsn, &started, &first, &recorded, &edition, &age, &m.sameSchema, &m.database)
	})
	if err != nil {
		return nil, s.table.explain(err)
	}
	if g.naming {
		if err := c.QueryRow(ctx, `SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()`, s.plain).Scan(&m.server); err != nil {
			return nil, s.table.explain(err)
		}
	}
	m.started.Store(started)
	if !g.fsync || m.server == "" {
		m.server = fmt.Sprintf("%s, started %d", m.server, started)
	}
	if first != nil {
		m.identity = *first
	}
	if recorded != nil {
		m.recorded = *recorded
	}
	if first != nil && !strings.HasPrefix(m.identity, layout) {
		return nil, storekit.Denied("the table %s is of another version of turnwise, or not of turnwise: name another one with WithTable", s.table.quoted())
	}
	if edition != nil {
		m.edition, m.age = *edition, storekit.Since(*age)
	}
	if first != nil && recorded != nil {
		m.id = fmt.Sprintf("%s/%d/%d/%s/%x", m.here(), m.database, m.oid, strings.TrimPrefix(m.identity, layout), uint64(m.edition))
	}
	return m, nil
}

// recognize refuses a connection that does not lead to the memory that we know.
func (s *Store) recognize(ctx context.Context, c *pgx.Conn, known *memory) error {
	before := known.reached.Load()
	found, err := s.look(ctx, c)
	switch {
	case err != nil:
		hangUp(c)
		return err
	case found.pooled && !s.pooler:
		hangUp(c)
		return errors.New("a pooler has come between us and the server: open the store anew")
	case found.isBehind(known):
		hangUp(c)
		return errOldPrimary
	case found.id != known.id, found.recorded != known.here(), found.lsn < before:
		return s.forgot(known, "is", found.id)
	}
	known.reached.Saw(found.lsn)
	s.server.Began(found.began(), 1)
	known.started.Store(found.started.Load())
	return nil
}

// began is when the server was started, as its clock says.
func (m *memory) began() time.Duration { return time.Duration(m.started.Load()) * time.Microsecond }

// forgot makes all calls fail until Memory is called.
func (s *Store) forgot(known *memory, is ...any) error {
	if s.known.Forget(known) {
		s.Log.Warn("postgres: the server may have forgotten what it had stored", append([]any{"was", known.id}, is...)...)
	}
	return register.ErrForgot
}

// Memory counts from the time when the table was first used, when it was noticed that the server is another than the one
// where the table was made, when its schema, the table or its database was changed, or when the server was started, whichever came last:
// before that there may have been another table of that name, or an older state of it.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	mem, err := s.recall(ctx)
	return mem, s.table.failed(ctx, err, "look at the server")
}

func (s *Store) recall(ctx context.Context) (register.Memory, error) {
	mem, err := s.known.Recall(ctx, func(last *memory) (m *memory, err error) {
		err = storekit.Query(ctx, func() error {
			pc, err := s.pool.Acquire(ctx)
			if err != nil {
				return err
			}
			defer pc.Release()
			if m, err = s.remember(ctx, pc.Conn(), last); err == nil {
				return nil
			}
			if pc.Conn().IsClosed() {
				err = &cut{err}
			}
			hangUp(pc.Conn())
			if ctx.Err() == nil { // else those that are being made would be of no use
				s.pool.Reset()
			}
			return err
		}, storekit.Never, isCut)
		return m, s.table.explain(err)
	})
	if err == nil && s.listener != nil {
		s.listener.bell() // it may listen in the wrong place
	}
	return mem, err
}

// maxLooks is how often the server may be another one while it is looked at.
const maxLooks = 100

// remember looks, and writes down what is new.
func (s *Store) remember(ctx context.Context, c *pgx.Conn, last *memory) (*memory, error) {
	for range maxLooks {
		before := int64(0)
		if last != nil {
			before = last.reached.Load()
		}
		m, err := s.look(ctx, c)
		if err != nil {
			return nil, err
		}
		wentBack := m.lsn < before && last != nil && last.here() == m.here() && last.edition == m.edition
		edition := register.NewVersion()
		write := func(sql string, args ...any) error {
			_, err := s.run(ctx, c, m, sql, args, nil)
			return err
		}
		switch {
		case m.isBehind(last):
			return nil, errOldPrimary
		case m.id == "": // emptied
			err = write(s.sql.refill, layout, storekit.Number(edition))
		case m.recorded == "" && m.edition == 0: // nobody has used it yet
			err = write(s.sql.remember, []byte(m.here()), int64(0), m.edition, []byte(m.recorded))
		case m.recorded != m.here(), wentBack:
			s.Log.Warn("postgres: the server is not what it was when the table was made, or its log was longer before", "was", m.recorded, "is", m.here())
			err = write(s.sql.remember, []byte(m.here()), storekit.Number(edition), m.edition, []byte(m.recorded))
		case !m.sameSchema: // it may have had another name for a while, or be a copy
			err = write(s.sql.acceptSchema)
		default:
			m.reached.Saw(m.lsn)
			if last != nil && last.id == m.id {
				last.reached.Saw(m.lsn)
			}
			s.server.Began(m.began(), 1)
			return m, nil
		}
		if err != nil {
			return nil, s.table.explain(err)
		}
	}
	return nil, errors.New("the row that says where the table was made does not change: is there a rule or a trigger on the table?")
}
