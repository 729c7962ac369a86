package nats

import (
	"context"
	"encoding/base64"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) Read(ctx context.Context, key string) (cur register.Item, err error) {
	err = s.with(ctx, func(c *conn, known *memory) error {
		var at stand
		if cur, at, err = s.content(ctx, c, known, key); err != nil || cur.Version.IsZero() {
			return err
		}
		now, err := s.serverTime(ctx, c, known, 0)
		cur.Clock, cur.Age = clock(now), max(0, now.Sub(at.since))
		return err
	})
	return cur, failed(ctx, err, "read %q", key)
}

// message is one that the stream has.
type message struct {
	Seq  uint64    `json:"seq"`
	Data []byte    `json:"data"`
	Time time.Time `json:"time"`
}

// lastOf asks for the last message of a subject.
func (s *Store) lastOf(ctx context.Context, c *conn, subject string) (message, error) {
	var a struct {
		Message message `json:"message"`
	}
	err := c.api(ctx, "STREAM.MSG.GET."+s.root, map[string]string{"last_by_subj": subject}, &a)
	return a.Message, err
}

// content asks for a register, and says where it stands.
func (s *Store) content(ctx context.Context, c *conn, known *memory, key string) (cur register.Item, at stand, err error) {
	before := known.seen.Of(key)
	m, err := s.lastOf(ctx, c, known.subject(s.root, key))
	switch {
	case isCode(err, noMessage):
		// In a memory that is over nothing stands either. What goes in one that is not has gone by itself after a time.
		if _, err := s.still(ctx, c, known, nil); err != nil {
			return cur, at, err
		}
		known.seen.Forget(key)
		return register.Item{Key: key}, at, nil
	case err != nil:
		return cur, at, err
	case m.Seq < before.seq:
		s.Log.Warn("nats: the stream has an older message than it had", "key", key)
		return cur, at, s.hasGoneBack(known)
	}
	if cur, err = item(key, m.Data); err != nil {
		return cur, at, err
	}
	at = stand{cur.Version, m.Seq, m.Time}
	known.put(key, at)
	return cur, at, nil
}

// item takes a register out of its message: the version, and the value behind it. The zero version is what an emptied one has.
func item(key string, data []byte) (register.Item, error) {
	it := register.Item{Key: key}
	if len(data) < len(it.Version) {
		return it, storekit.NotOurs("the message for %.100q is not ours: who else publishes under this root?", key)
	}
	it.Version = register.Version(data[:len(it.Version)])
	if !it.Version.IsZero() {
		it.Value = data[len(it.Version):]
	}
	return it, nil
}

// serverTime returns what the server's clock says, or said at most that long ago.
func (s *Store) serverTime(ctx context.Context, c *conn, known *memory, back time.Duration) (time.Time, error) {
	c.mu.Lock()
	now, at := c.clock, c.sampled
	c.mu.Unlock()
	if back > 0 && time.Since(at) < back {
		return now, nil
	}
	sent := time.Now()
	info, err := s.still(ctx, c, known, nil)
	if err != nil {
		return time.Time{}, err
	}
	c.mu.Lock()
	if sent.After(c.sampled) {
		c.clock, c.sampled = info.Now, sent
	}
	c.mu.Unlock()
	return info.Now, nil
}

// clock is a moment of the server's clock as the time since one that is the same for everybody.
func clock(t time.Time) time.Duration { return t.Sub(beginning) }

var beginning = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)

// maxKind is the length of the longest beginning of keys that has a token of its own in their subjects.
const maxKind = 60

// kindOf returns the token for keys that begin alike up to a slash, so that they can be listed without all others.
func kindOf(key string) (token string, own bool) {
	before, _, has := strings.Cut(key, "/")
	if !has || len(before) > maxKind {
		return "-", false
	}
	return "k" + base64.RawURLEncoding.EncodeToString([]byte(before)), true
}

// subject returns where the messages of a register go. The memory is part of it: a swap that was meant for another memory finds
// nobody there.
func (m *memory) subject(root, key string) string {
	kind, _ := kindOf(key)
	return m.registers(root) + "." + kind + "." + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// keyOf is the way back.
func (m *memory) keyOf(root, subject string) (key string, ok bool) {
	token := subject[strings.LastIndexByte(subject, '.')+1:]
	raw, err := base64.RawURLEncoding.DecodeString(token)
	return string(raw), err == nil && len(raw) > 0 && m.subject(root, string(raw)) == subject
}
