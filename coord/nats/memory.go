package nats

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// memory is one stretch of time in which the server has forgotten nothing. Its ID is written in the stream, and is in all subjects
// there: a swap that is meant for a memory that is over finds nobody.
//
// All memories have a stream of the same name, and a server has one stream of a name. So there is one at a time. That it gives a
// subject to one stream only would not do: two streams that are made at the same moment may share one. Whoever notices that a
// memory is over deletes the stream, and makes it anew. If somebody else has done that just before, a memory ends early.
type memory struct {
	id  string
	run string        // of the server, when the memory began
	age time.Duration // how long it has lasted, by the server's clock: negative if that was set back

	made     time.Time     // when its stream was made, by the server's clock: somebody else may make one with our ID
	last     driverkit.Max // the greatest number of a message that was seen
	first    string        // the subject of the message that stands as long as nothing is lost; "": an earlier build has made the stream
	stands   driverkit.Max // the greatest number that it was seen to have
	seen     storekit.Seen[stand]
	wentBack atomic.Bool // it has gone back behind what we have seen
}

func (m *memory) ID() string         { return m.id }
func (m *memory) For() time.Duration { return m.age }

// registers is what the subjects of a memory's registers begin with.
func (m *memory) registers(root string) string { return root + ".r." + m.id }

const (
	layoutTag  = "turnwise-layout"
	memoryTag  = "turnwise-memory"
	runTag     = "turnwise-server"
	firstTag   = "turnwise-first"
	monitorTag = "turnwise-monitor" // whether those who use the stream have one
	layout     = "1"
)

// stream is how a stream is made. What others may have set besides is there to be refused.
type stream struct {
	Name        string            `json:"name"`
	Subjects    []string          `json:"subjects"`
	Metadata    map[string]string `json:"metadata"`
	Storage     string            `json:"storage"`
	Retention   string            `json:"retention"`
	Discard     string            `json:"discard"`
	PerSubject  int               `json:"max_msgs_per_subject"`
	MaxMessages int               `json:"max_msgs"`
	MaxBytes    int64             `json:"max_bytes"`
	MaxSize     int               `json:"max_msg_size"`
	MaxAge      int64             `json:"max_age"`
	Replicas    int               `json:"num_replicas"`
	MessageTTL  bool              `json:"allow_msg_ttl"`
	DenyDelete  bool              `json:"deny_delete"` // neither can be taken back
	DenyPurge   bool              `json:"deny_purge"`
	Republish   *republish        `json:"republish,omitempty"`

	Sealed    bool            `json:"sealed"`
	NoAck     bool            `json:"no_ack,omitempty"`
	Mirror    json.RawMessage `json:"mirror,omitempty"`
	Sources   json.RawMessage `json:"sources,omitempty"`
	Transform json.RawMessage `json:"subject_transform,omitempty"`
	Persist   string          `json:"persist_mode,omitempty"`
}

type republish struct {
	From        string `json:"src"`
	To          string `json:"dest"`
	HeadersOnly bool   `json:"headers_only"`
}

type streamInfo struct {
	Config  stream    `json:"config"`
	Created time.Time `json:"created"`
	Now     time.Time `json:"ts"`
	Total   int       `json:"total"`
	State   struct {
		First uint64 `json:"first_seq"`
		Last  uint64 `json:"last_seq"`
		Lost  *struct {
			Numbers []uint64 `json:"msgs"`
		} `json:"lost"` // by the disk, as the server has noticed
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
	Cluster struct {
		Leader string `json:"leader"`
	} `json:"cluster"`
}

func (s *Store) streamOf(id, run string) stream {
	m := memory{id: id}
	return stream{
		Name: s.root, Subjects: []string{m.registers(s.root) + ".>"},
		Metadata: map[string]string{layoutTag: layout, memoryTag: id, runTag: run, firstTag: newID(), monitorTag: strconv.FormatBool(s.monitor != "")},
		Storage:  "file", Retention: "limits", Discard: "old", PerSubject: 1, MaxMessages: -1, MaxBytes: -1, MaxSize: -1, Replicas: 1,
		MessageTTL: true, DenyDelete: true, DenyPurge: true,
		Republish: &republish{m.registers(s.root) + ".>", s.toldSubject(), true},
	}
}

// Memory says that the server has remembered everything since the stream was made. Unless the server is known to wait for its
// disk, another start of it is another memory.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	mem, err := s.recall(ctx)
	return mem, failed(ctx, err, "look for the stream of the memory")
}

func (s *Store) recall(ctx context.Context) (register.Memory, error) {
	mem, err := s.known.Recall(ctx, func(last *memory) (*memory, error) {
		c, err := s.link.get(ctx, s.life)
		if err != nil {
			return nil, err
		}
		m, err := s.look(ctx, c, last)
		if err == nil {
			s.server.IsNamed(c.run)
			c.known.Store(m)
		}
		return m, err
	})
	return mem, explain(err)
}

// mostStreams is how often the stream may be another one while it is looked at.
const mostStreams = 8

// look finds out which memory there is, or begins one.
func (s *Store) look(ctx context.Context, c *conn, last *memory) (*memory, error) {
	for range mostStreams {
		var seen int64
		if last != nil {
			seen = last.last.Load()
		}
		info, err := s.info(ctx, c, nil)
		if isCode(err, noStream) {
			if err := s.begin(ctx, c); err != nil && !isCode(err, nameInUse) {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		m := last
		if m == nil || m.id != info.memory() {
			m, seen = &memory{id: info.memory(), made: info.Created}, 0
			if number := info.Config.Metadata[firstTag]; isID(number) {
				m.first = m.registers(s.root) + ".first." + number
			}
		}
		if err := s.isOurs(c, m, &info); err != nil {
			return nil, err
		}
		if m != last {
			m.run = info.Config.Metadata[runTag]
		}
		if stays, err := s.goesOn(ctx, c, m, &info, seen); err != nil {
			return nil, err
		} else if !stays {
			continue
		}
		m.last.Saw(int64(info.State.Last))
		m.age = info.Now.Sub(info.Created)
		if s.monitor != "" { // it may have been started with an older disk
			m.age = min(m.age, time.Since(c.up))
		}
		return m, nil
	}
	return nil, errors.New("the stream is another one all the time: is somebody deleting streams?")
}

// goesOn deletes a stream whose memory is over, and has the first message stand in one that is new. It reports whether it was neither.
func (s *Store) goesOn(ctx context.Context, c *conn, m *memory, info *streamInfo, seen int64) (bool, error) {
	over, err := s.isOver(ctx, c, m, info, seen)
	if err != nil {
		return false, err
	}
	blank := m.first != "" && info.State.Last == 0
	isNew := info.Now.Sub(info.Created) <= stillNew
	if over || blank && !isNew {
		s.Log.Warn("nats: the server may have forgotten what it had stored, so all begins anew", "stream", s.root)
		if err := c.api(ctx, "STREAM.DELETE."+s.root, nil, nil); err != nil && !isCode(err, noStream) {
			return false, err
		}
		return false, nil
	}
	if m.first == "" || !isNew || info.State.First > 1 {
		return true, nil
	}
	return !blank, s.layFirst(ctx, c, m)
}

// stillNew is how old a stream may be in which nothing was ever stored. Whoever makes one stores something at once.
const stillNew = time.Minute

func newID() string {
	v := register.NewVersion()
	return hex.EncodeToString(v[:])
}

func (s *Store) begin(ctx context.Context, c *conn) error {
	err := c.api(ctx, "STREAM.CREATE."+s.root, s.streamOf(newID(), c.run), nil)
	if isCode(err, subjectsOverlap) {
		return storekit.Denied("another stream of this account takes what is published under %s.r: name another root with WithRoot", s.root)
	}
	return err
}

// layFirst publishes the first message of a stream. A stream that is made to throw messages away begins with the oldest, so as long as
// this one stands it has thrown away none. That shows it to whoever looks, and not only to who has seen what is missing. Somebody who writes
// a line may have come before; as long as what he wrote is there, nothing has gone.
func (s *Store) layFirst(ctx context.Context, c *conn, m *memory) error {
	first := natsgo.NewMsg(m.first)
	first.Header.Set("Nats-Expected-Last-Subject-Sequence", "0")
	answer, err := c.request(ctx, first)
	if errors.Is(err, natsgo.ErrNoResponders) { // the stream has gone again
		return nil
	}
	if err != nil {
		return err
	}
	if err := decode(answer.Data, nil); !isCode(err, wrongSequence, wrongSequenceToo) { // or somebody else has been as quick
		return err
	}
	return nil
}

// isID reports whether a text is the ID of a memory. In another one there may be what a subject takes for any text.
func isID(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == len(register.Version{}) && hex.EncodeToString(raw) == text
}

// memory returns the ID of the memory that the stream is of.
func (i *streamInfo) memory() string { return i.Config.Metadata[memoryTag] }

// isOf reports whether it is the stream that was made for a memory.
func (i *streamInfo) isOf(m *memory) bool { return i.memory() == m.id && i.Created.Equal(m.made) }

func (s *Store) info(ctx context.Context, c *conn, ask any) (info streamInfo, err error) {
	err = c.api(ctx, "STREAM.INFO."+s.root, ask, &info)
	return info, err
}

// still asks about the stream, and fails if it is not of this memory any more, not as it was, or has lost anything: then an empty
// register says nothing.
func (s *Store) still(ctx context.Context, c *conn, m *memory, ask any) (streamInfo, error) {
	seen := m.last.Load()
	info, err := s.info(ctx, c, ask)
	if err != nil {
		return info, err
	}
	if !info.isOf(m) {
		return info, errNobody
	}
	if changed := s.isOurs(c, m, &info); changed != nil {
		if s.known.Forget(m) {
			s.Log.Warn("nats: the stream is not as it was any more", "err", storekit.OneLine(changed))
		}
		return info, register.ErrForgot
	}
	if over, err := s.isOver(ctx, c, m, &info, seen); err != nil {
		return info, err
	} else if over {
		s.Log.Warn("nats: messages have gone from the stream", "first", info.State.First, "last", info.State.Last, "seen", seen)
		return info, s.hasGoneBack(m)
	}
	return info, nil
}

// isOurs refuses a stream that is not as we make it: one that throws messages away by itself, or that changes them. And one of those who say
// otherwise about a monitor: who has none would end a memory that the others rely on. An earlier build did not write down what it said.
func (s *Store) isOurs(c *conn, m *memory, info *streamInfo) error {
	is, want := info.Config, s.streamOf(m.id, "")
	if is.Metadata[layoutTag] != layout || !isID(m.id) {
		return storekit.Denied("the stream %s is not ours, or of another version of turnwise: name another root with WithRoot", s.root)
	}
	if has, err := strconv.ParseBool(is.Metadata[monitorTag]); err == nil && has != (s.monitor != "") {
		return storekit.Denied("the others with the stream %s say WithMonitor (monitor in a URL) and we do not, or the other way round: "+
			"say it everywhere or nowhere; to change it for all, stop all, and delete the stream", s.root)
	}
	if leader := info.Cluster.Leader; leader != "" && leader != c.name {
		return storekit.Denied("the stream is at the server %.100q, and we are connected to another one: connect to that", leader)
	}
	is.Metadata, want.Metadata = nil, nil
	if is.Persist == "default" {
		is.Persist = ""
	}
	if reflect.DeepEqual(is, want) { // almost always
		return nil
	}
	got, err := json.Marshal(is)
	if err != nil {
		return err
	}
	made, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if string(got) != string(made) {
		return storekit.Denied("somebody has changed the stream %s: it is %.600s, and should be %.600s; stop all, and delete it", s.root, got, made)
	}
	return nil
}

// hasLost reports whether messages have gone from the stream other than by themselves. Somebody may have had the server send an answer
// to the subject of the first one, which then stands further back, and shows as much from there on.
func (s *Store) hasLost(ctx context.Context, c *conn, m *memory, info *streamInfo) (bool, error) {
	if info.State.Lost != nil && len(info.State.Lost.Numbers) > 0 {
		return true, nil
	}
	if int64(info.State.First) <= max(m.stands.Load(), 1) || m.first == "" {
		return false, nil
	}
	first, err := s.lastOf(ctx, c, m.first)
	if isCode(err, noMessage) {
		return true, nil
	}
	m.stands.Saw(int64(first.Seq))
	return false, err
}

// isOver reports whether a memory must not be gone on with. seen is the greatest number that was seen before info was asked for: what was
// seen since may be greater than that of a stream that has lost nothing.
func (s *Store) isOver(ctx context.Context, c *conn, m *memory, info *streamInfo, seen int64) (bool, error) {
	if m.wentBack.Load() || !info.isOf(m) || int64(info.State.Last) < seen || s.monitor == "" && m.run != c.run {
		return true, nil
	}
	return s.hasLost(ctx, c, m, info)
}

// recognize refuses a connection to a server that does not have the memory that we know.
func (s *Store) recognize(ctx context.Context, c *conn, known *memory) error {
	if s.monitor == "" && known.run != c.run {
		return s.forgot(known)
	}
	if _, err := s.still(ctx, c, known, nil); isGone(err) {
		return s.forgot(known)
	} else if err != nil {
		return err
	}
	s.server.IsNamed(c.run)
	return nil
}

// forgot makes all calls fail until Memory is called, which looks what is there now.
func (s *Store) forgot(known *memory) error {
	s.known.Forget(known)
	return register.ErrForgot
}

// hasGoneBack is forgot for a memory whose stream is there, and has less than it had: it must not be gone on with.
func (s *Store) hasGoneBack(known *memory) error {
	known.wentBack.Store(true)
	return s.forgot(known)
}

// stand is the last message of a register: its number, the version in it, and when it was stored.
type stand struct {
	version register.Version
	seq     uint64
	since   time.Time // by the server's clock
}

// ttlHeader has the server take a message away after a time.
const ttlHeader = "Nats-TTL"

// emptyFor is how long the message of an emptied register stays.
const emptyFor = 2 * time.Hour

// put takes in what was seen. An answer that was overtaken by a later one counts for nothing.
func (m *memory) put(key string, at stand) {
	m.seen.PutIf(key, at, func(last stand) bool { return at.seq >= last.seq })
}

// clockFor is how old a sample of the server's clock may be where an age may be too small by that.
const clockFor = 250 * time.Millisecond
