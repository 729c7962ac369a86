package memcached

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
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

func (m *memory) ID() string         { return m.id }
func (m *memory) For() time.Duration { return m.age }

// layout is what the mark's item begins with.
const layout = "turnwise register, layout 1, "

// markKey is where the mark is.
func (s *Store) markKey() string { return s.root + ".memory" }

// recognize makes sure, before a connection is used for anything else, that it leads to the run of the server that has our
// mark. The numbers by which the server tells items apart (cas) are the same again after a restart, so a change that goes by
// what was seen on another connection could hit something else.
func (s *Store) recognize(ctx context.Context, c *conn, known *memory) error {
	if c.known == known {
		return nil
	}
	a, err := c.ask(ctx, get(s.markKey()))
	if err == nil {
		err = s.check(known, a[0])
	}
	if err == nil {
		c.known = known
	}
	return err
}

// check makes sure that the mark is the one that we know.
func (s *Store) check(known *memory, mark reply) error {
	if mark.found() && bytes.Equal(mark.value, known.raw) {
		return nil
	}
	return s.forgot(known)
}

// forgot makes all calls fail until Memory is called.
func (s *Store) forgot(known *memory) error {
	if s.known.Forget(known) {
		s.Log.Warn("memcached: the server has forgotten what it had stored", "was", known.id)
		s.pool.Drop()
	}
	return register.ErrForgot
}

// Memory says that the server has remembered everything since it was started or emptied.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	mem, err := s.recall(ctx)
	return mem, pkg.Failed(ctx, err, "look at the server")
}

func (s *Store) recall(ctx context.Context) (register.Memory, error) {
	return s.known.Recall(ctx, func(last *memory) (m *memory, err error) {
		err = storekit.Query(ctx, func() error {
			return s.pool.Do(ctx, func(c *conn) (err error) {
				m, err = s.look(ctx, c)
				return err
			})
		}, storekit.Never, isCut)
		if err == nil && last != nil && last.id != m.id {
			s.forgot(last)
			s.seen.Clear() // a server that was restarted counts from the beginning
		}
		return m, err
	})
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
		if err := s.checkSettings(stats, settings); err != nil {
			return nil, err
		}
		now := integer(stats["time"])
		answers, err := c.ask(ctx, get(s.markKey()))
		if err != nil {
			return nil, err
		}
		if !answers[0].found() {
			if err := s.write(ctx, c, add(s.markKey(), encodeMark(undated, register.NewVersion()))); err != nil {
				return nil, err
			}
			continue
		}
		m := &memory{raw: answers[0].value}
		began, mark, ok := parseMark(m.raw)
		switch {
		case !ok:
			return nil, storekit.Denied("the lines there are of another version of turnwise, or the keys are not ours: name another root with WithRoot")
		case began == undated:
			if err := s.date(ctx, c, mark, answers[0].cas); err != nil {
				return nil, err
			}
			continue
		}
		m.mark = mark
		m.id = hex.EncodeToString(mark[:])
		m.age = time.Duration(min(max(min(now-began, integer(stats["uptime"])-1), 0), centuries)) * time.Second
		return m, nil
	}
}

// undated is what a mark says before it has a date. The date must be asked for after the mark was seen: if it came with a mark
// that was held up on its way, the memory would seem to have begun before the server was emptied. For the same reason it is
// put there on the connection on which the mark was seen, and only if the mark is still the one that was seen.
const undated = 0

func (s *Store) date(ctx context.Context, c *conn, mark [8]byte, cas uint64) error {
	stats, err := c.stats(ctx, "")
	if err != nil {
		return err
	}
	// It begins a second late, since the server counts seconds.
	return s.write(ctx, c, replace(s.markKey(), cas, encodeMark(integer(stats["time"])+2, mark)))
}

// write sends a change of the mark, and leaves it to the next look what came of it.
func (s *Store) write(ctx context.Context, c *conn, q request) error {
	answers, err := c.ask(ctx, q)
	if err != nil {
		return err
	}
	return kept(answers[0])
}

func encodeMark(began int64, mark [8]byte) []byte {
	return fmt.Appendf(nil, "%s%d %x", layout, began, mark)
}

// parseMark decodes the mark's item.
func parseMark(raw []byte) (began int64, mark [8]byte, ok bool) {
	rest, ours := strings.CutPrefix(string(raw), layout)
	at, digits, spaced := strings.Cut(rest, " ")
	n, err := hex.Decode(mark[:], []byte(digits[:min(len(digits), 2*len(mark))]))
	began = integer(at)
	return began, mark, ours && spaced && err == nil && n == len(mark) && began >= 0
}

// centuries is for how long a server can have remembered, in seconds, whatever it says.
const centuries = 1 << 33

// checkSettings refuses a server that would not do.
func (s *Store) checkSettings(stats, settings map[string]string) error {
	version, disk := stats["version"], stats["extstore_limit_maxbytes"]
	var v [3]int
	fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	switch {
	case version == "" || settings["item_size_max"] == "":
		return storekit.Denied("the server does not say its version or its settings: is it a proxy? Name the server itself")
	case v[0] < 1 || v[0] == 1 && (v[1] < 6 || v[1] == 6 && v[2] < 12):
		return storekit.Denied("the server's version is %q, and we need memcached 1.6.12 or newer", version)
	case settings["cas_enabled"] == "no":
		return storekit.Denied("the server was started with -C, and does not tell one content from another: start it without")
	case settings["evictions"] == "on" && !s.evictions:
		return storekit.Denied("the server throws items away when it is full, lines too, and then two hold at once: start it with -M, or see memcached.WithEvictions")
	case disk != "" && !s.evictions:
		return storekit.Denied("the server keeps items in a file (-o ext_path) and throws them away when that is full, lines too, and then two hold at once: " +
			"start it without, or see memcached.WithEvictions")
	case settings["slab_reassign"] == "yes" && !s.evictions:
		return storekit.Denied("the server moves its memory about, and throws an item away that somebody is slow to read meanwhile, lines too, and then " +
			"two hold at once: start it with -o no_slab_reassign, or see memcached.WithEvictions")
	}
	s.largest.Store(min(max(integer(settings["item_size_max"])-4<<10, 1), maxValue))
	return nil
}

// kept returns an error if the server has not kept an item. What stood there stays.
func kept(a reply) error {
	if why, failed := strings.CutPrefix(a.code, "SERVER_ERROR "); failed {
		return full(why)
	}
	return nil
}
