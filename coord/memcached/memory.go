package memcached

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// memory is one stretch of time in which the server has forgotten nothing. It has a mark, an item that a client puts there
// if it finds none: flush_all and a restart take it away together with all others. Each request asks for the mark after all
// else, in the same trip: if the mark is there, so was all that was asked for before it. So it does not matter which
// connection leads to which run of the server.
type memory struct {
	id   string
	raw  []byte // the item
	mark [8]byte
	age  time.Duration
}

// layout is what the mark's item begins with.
const layout = "turnwise register, layout 1, "

// check makes sure that the mark is the one that we know.
func (s *Store) check(known *memory, mark reply) error {
	if mark.found() && bytes.Equal(mark.value, known.raw) {
		return nil
	}
	return s.forgot(known)
}

// forgot makes all calls fail until Memory is called.
func (s *Store) forgot(known *memory) error {
	if s.known.CompareAndSwap(known, nil) {
		s.log.Warn("memcached: the server has forgotten what it had stored", "was", known.id)
		s.pool.drop()
	}
	return register.ErrForgot
}

// Memory says that the server has remembered everything since it was started or emptied.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	m, err := s.memory(ctx)
	if err != nil {
		return register.Memory{}, s.failed(ctx, "look at the server", err)
	}
	return register.Memory{ID: m.id, For: m.age}, nil
}

func (s *Store) memory(ctx context.Context) (*memory, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var m *memory
	for cuts := 0; ; cuts++ {
		c, err := s.pool.get(ctx)
		if err != nil {
			return nil, err
		}
		m, err = s.look(ctx, c)
		s.pool.put(c)
		if err == nil {
			break
		}
		s.pool.drop()
		if !c.broken || cuts >= maxCuts || ctx.Err() != nil {
			return nil, err
		}
	}
	known := s.known.Load()
	if known == nil || known.id != m.id {
		if known != nil {
			s.forgot(known)
		}
		s.seen.clear()
		s.known.Store(m)
	}
	return m, nil
}

// look finds out which memory there is, or begins one.
func (s *Store) look(ctx context.Context, c *conn) (*memory, error) {
	for {
		stats, err := c.stats(ctx, "")
		if err != nil {
			return nil, err
		}
		settings, err := c.stats(ctx, "settings")
		if err != nil {
			return nil, err
		}
		if err := s.checkSettings(stats["version"], settings); err != nil {
			return nil, err
		}
		now := number(stats["time"])
		answers, err := c.ask(ctx, get(s.markKey()))
		if err != nil {
			return nil, err
		}
		if raw := answers[0].value; answers[0].found() {
			m := &memory{raw: raw}
			began, mark, ok := parseMark(raw)
			if !ok {
				return nil, denied("the lines there are of another version of turnwise, or the keys are not ours: name another root with WithRoot")
			}
			m.mark = mark
			m.id = hex.EncodeToString(mark[:])
			m.age = time.Duration(max(now-began, 0)) * time.Second
			return m, nil
		}
		// It begins a second late, since the server counts seconds.
		mark := register.NewVersion()
		answers, err = c.ask(ctx, add(s.markKey(), fmt.Appendf(nil, "%s%d %x", layout, now+2, mark)))
		if err != nil {
			return nil, err
		}
		if why, failed := strings.CutPrefix(answers[0].code, "SERVER_ERROR "); failed {
			return nil, full(why)
		}
	}
}

// parseMark decodes the mark's item.
func parseMark(raw []byte) (began int64, mark [8]byte, ok bool) {
	rest, ours := strings.CutPrefix(string(raw), layout)
	at, digits, spaced := strings.Cut(rest, " ")
	n, err := hex.Decode(mark[:], []byte(digits[:min(len(digits), 2*len(mark))]))
	return number(at), mark, ours && spaced && err == nil && n == len(mark)
}

// checkSettings refuses a server that would not do.
func (s *Store) checkSettings(version string, settings map[string]string) error {
	var v [3]int
	fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	switch {
	case version == "" || settings["item_size_max"] == "":
		return denied("the server does not say its version or its settings: is it a proxy? Name the server itself")
	case v[0] < 1 || v[0] == 1 && (v[1] < 6 || v[1] == 6 && v[2] < 12):
		return denied("the server's version is %q, and we need memcached 1.6.12 or newer", version)
	case settings["cas_enabled"] == "no":
		return denied("the server was started with -C, and does not tell one content from another: start it without")
	case settings["evictions"] == "on" && !s.evictions:
		return denied("the server throws items away when it is full, lines too, and then two hold at once: start it with -M, or see memcached.WithEvictions")
	}
	s.largest.Store(max(number(settings["item_size_max"])-4<<10, 1))
	return nil
}

// full returns the error for a server that cannot keep an item.
func full(why string) error {
	return fmt.Errorf("the server cannot keep it: give it more memory with -m: %s", why)
}

// kept returns an error if the server has not kept an item. A server that cannot keep one throws away what stood there
// before. So all that is known may be wrong, and everybody is told by removing the mark.
func (s *Store) kept(ctx context.Context, c *conn, known *memory, a reply) error {
	why, failed := strings.CutPrefix(a.code, "SERVER_ERROR ")
	if !failed {
		return nil
	}
	if strings.Contains(why, "during read") { // it has not even looked at what stood there
		return full(why)
	}
	if _, err := c.ask(ctx, remove(s.markKey(), 0)); err != nil {
		return err
	}
	s.log.Error("memcached: the server is full, and may have thrown away what stood there: all begin anew", "err", why)
	return fmt.Errorf("%w: %w", s.forgot(known), full(why))
}
