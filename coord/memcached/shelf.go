package memcached

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// The server does not say what it has. So there is a directory, in a few items of its own, the shelves: each has the keys of
// some registers. A key is put there each time before its register is made, each time with another nonce. It stays when the
// register is removed. List takes the key away only when it has found no register for pruneAfter, and the same nonce all
// the time, and only if the shelf is still as List read it before it looked for the register: a client that is about to make
// the register has changed the shelf. So a register that stands is always listed.
const (
	shelves    = 16
	mostOnOne  = 1 << 17     // entries that are read: what comes of a short one takes ten times the memory
	pruneAfter = time.Minute // a test has a shorter one
)

func (s *Store) shelf(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % shelves)
}

// shelfKey has the mark in it: who puts a key there does not look what is there.
func (s *Store) shelfKey(m *memory, n int) string {
	return fmt.Sprintf("%s.keys/%x/%d", s.root, m.mark, n)
}

// entry is a key in the directory.
type entry struct {
	key     string
	nonce   register.Version
	several bool // the key is there several times
}

func encodeShelf(m *memory, all []entry) []byte {
	b := append([]byte{format}, m.mark[:]...)
	for _, e := range all {
		b = e.append(b)
	}
	return b
}

func (e entry) append(b []byte) []byte {
	b = append(b, e.nonce[:]...)
	b = binary.AppendUvarint(b, uint64(len(e.key)))
	return append(b, e.key...)
}

// latest leaves each key only once, with its last nonce.
func latest(all []entry) (once []entry) {
	last := make(map[string]entry, len(all))
	for _, e := range all {
		_, e.several = last[e.key]
		last[e.key] = e
	}
	for _, e := range all {
		if last[e.key].nonce == e.nonce {
			once = append(once, last[e.key])
		}
	}
	return once
}

// decodeShelf returns nothing for a shelf of another memory. A key may be in it several times.
func decodeShelf(m *memory, a reply) (all []entry, err error) {
	if !a.found() {
		return nil, nil
	}
	b := a.value
	if len(b) < 9 || b[0] != format {
		return nil, errForeign
	}
	if [8]byte(b[1:9]) != m.mark {
		return nil, nil
	}
	for b = b[9:]; len(b) > 0; {
		if len(all) == mostOnOne {
			return nil, storekit.Denied("the list of keys has more than %d in one of %d parts", mostOnOne, shelves)
		}
		var e entry
		if copy(e.nonce[:], b) < len(e.nonce) {
			return nil, errShelf
		}
		b = b[len(e.nonce):]
		size, n := binary.Uvarint(b)
		if n <= 0 || uint64(len(b)-n) < size {
			return nil, errShelf
		}
		e.key, b = string(b[n:n+int(size)]), b[n+int(size):]
		all = append(all, e)
	}
	return all, nil
}

// put replaces the shelf that was read, if nobody has changed it since. An entry that stands for several gets a nonce of its own:
// those who made one of them could take it away, and another's register with it.
func (s *Store) put(ctx context.Context, c *conn, known *memory, n int, was reply, all []entry) (done bool, err error) {
	for i := range all {
		if all[i].several {
			all[i].nonce = register.NewVersion()
		}
	}
	value := encodeShelf(known, all)
	q := add(s.shelfKey(known, n), value)
	if was.found() {
		q = replace(s.shelfKey(known, n), was.cas, value)
	}
	done, _, err = s.apply(ctx, c, known, q)
	return done, err
}

// shelfSize is how large a shelf may be: List reads all of them in one trip. What is left over up to the server's bound is
// for those who put keys there at the same time.
func (s *Store) shelfSize() int {
	return int(min(s.largest.Load()*3/4, maxAnswers/2/shelves))
}

// announce puts a key into the directory. It reads nothing, so it takes no longer if there are many.
func (s *Store) announce(ctx context.Context, c *conn, known *memory, key string) error {
	n, e := s.shelf(key), entry{key: key, nonce: register.NewVersion()}
	shelf := s.shelfKey(known, n)
	for tries := 0; ; tries++ {
		a, err := c.ask(ctx, extend(shelf, e.append(nil)), size(shelf), get(s.markKey()))
		if err == nil {
			err = s.check(known, a[2])
		}
		if err == nil {
			err = kept(a[0])
		}
		switch {
		case err != nil:
			return err
		case a[0].code == "HD" && a[1].size > s.shelfSize():
			return s.squeeze(ctx, c, known, e)
		case a[0].code == "HD":
			return nil
		case a[1].code == "HD" && int64(a[1].size) > s.largest.Load(): // no item may be so long
			err = s.squeeze(ctx, c, known, e)
		case a[1].code == "HD" && tries > 0: // it is there, and yet the server appends nothing
			return full("no room for another key")
		default: // there was none
			_, err = s.put(ctx, c, known, n, reply{}, nil)
		}
		if err != nil {
			return err
		}
	}
}

// squeeze leaves each key only once in the shelf of a key that was just announced. If there is no room even so, it takes keys away that
// have no register: whoever lists would do so, but perhaps nobody lives for long enough. If there is none, it takes that one away.
func (s *Store) squeeze(ctx context.Context, c *conn, known *memory, e entry) error {
	n, barred := s.shelf(e.key), make(map[entry]bool)
	for {
		a, err := c.ask(ctx, get(s.shelfKey(known, n)), get(s.markKey()))
		if err == nil {
			err = s.check(known, a[1])
		}
		if err != nil {
			return err
		}
		all, err := decodeShelf(known, a[0])
		if err != nil {
			return err
		}
		tooLong := func(keys []entry) bool { return len(encodeShelf(known, keys)) > s.shelfSize() }
		keys := latest(all)
		if tooLong(keys) {
			if err := s.bar(ctx, c, known, keys, e.key, barred); err != nil {
				return err
			}
			keys = slices.DeleteFunc(keys, func(there entry) bool { return barred[once(there)] })
		}
		full := tooLong(keys)
		if full {
			keys = latest(slices.DeleteFunc(all, func(there entry) bool { return there == e }))
		}
		switch done, err := s.put(ctx, c, known, n, a[0], keys); {
		case err != nil:
			return err
		case done && full:
			return fmt.Errorf("%w: there are too many registers", register.ErrTooLarge)
		case done:
			return nil
		}
	}
}

// once is an entry without regard to how often its key is there.
func once(e entry) entry {
	e.several = false
	return e
}

// A key without a register may be that of somebody who has announced it and is about to make the register. So whoever takes it away at
// once bars that first: he puts an item of no memory there, which counts as absent. What the other sends is refused then, he looks
// again, and announces the key once more. The item goes by itself when nothing can be on its way any more.
const (
	barFor  = 2 * pruneAfter
	mostBar = 2000 // at a time
)

// bar bars keys of a shelf that have no register, but one, and adds them to those that are barred.
func (s *Store) bar(ctx context.Context, c *conn, known *memory, keys []entry, but string, barred map[entry]bool) error {
	left := slices.DeleteFunc(slices.Clone(keys), func(e entry) bool { return e.key == but || barred[once(e)] })
	for some := range slices.Chunk(left, s.page()) {
		if len(barred) >= mostBar {
			break
		}
		var looks []request
		for _, e := range some {
			looks = append(looks, get(s.keyOf(e.key)))
		}
		at, err := c.ask(ctx, append(looks, get(s.markKey()))...)
		if err == nil {
			err = s.check(known, at[len(some)])
		}
		if err != nil {
			return err
		}
		var bars []request
		var of []entry
		for i, e := range some {
			if _, current, err := decode(known, at[i].value); at[i].found() && (current || err != nil) {
				continue
			}
			q := add(s.keyOf(e.key), encode(&memory{}, e.key, register.Version{}, nil))
			if at[i].found() {
				q = replace(q.key, at[i].cas, q.value)
			}
			q.lasts = barFor
			bars, of = append(bars, q), append(of, e)
		}
		done, err := c.ask(ctx, append(bars, get(s.markKey()))...)
		if err == nil {
			err = s.check(known, done[len(bars)])
		}
		if err != nil {
			return err
		}
		for i, e := range of {
			if done[i].code == "HD" {
				barred[once(e)] = true
			}
		}
	}
	return nil
}

// pruner remembers since when List has found no register for a key.
type pruner struct {
	mu     sync.Mutex
	absent map[register.Version]time.Time // by the nonce that the key had
}

// prune takes away keys that have been without a register for long, and those that are there too often. If that fails, the next List tries again.
func (s *Store) prune(ctx context.Context, of *memory, n int, shelf reply, keys []entry, gone map[string]bool) {
	var stay []entry
	s.pruner.mu.Lock()
	for _, e := range keys {
		since, noted := s.pruner.absent[e.nonce]
		switch {
		case !gone[e.key]:
			stay = append(stay, e)
		case !noted:
			if s.pruner.absent == nil || len(s.pruner.absent) > 1<<16 {
				s.pruner.absent = make(map[register.Version]time.Time)
			}
			s.pruner.absent[e.nonce] = time.Now()
			stay = append(stay, e)
		case time.Since(since) < s.pruneAfter:
			stay = append(stay, e)
		default:
			delete(s.pruner.absent, e.nonce)
		}
	}
	s.pruner.mu.Unlock()
	if len(stay) == len(keys) && len(shelf.value) < 2*len(encodeShelf(of, keys)) {
		return
	}
	err := s.with(ctx, func(c *conn, known *memory) error {
		if known != of { // the shelf is another one, and may have the same number
			return nil
		}
		_, err := s.put(ctx, c, known, n, shelf, stay)
		return err
	})
	if err != nil {
		s.Log.Debug("memcached: keys of removed registers are not taken away yet", "err", err)
	}
}
