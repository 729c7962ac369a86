package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

var (
	realSteps = flag.Int("real.steps", 3000, "how many steps to compare with real servers")
	realPast  = flag.Int("real.past", 25, "how many of them to show")
	realSeed  = flag.Uint64("real.seed", 1, "of what they are")
)

// No session expires before a test ends, even on a slow machine: real servers would end it at a moment of their own.
const long, longest = 1_500_000, 2_000_000 // milliseconds

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// The same requests to real servers and to the ensemble have the same answers, and the same news comes in between in the
// same order, byte by byte except for times, the numbers of sessions, and what ZooKeeper itself has in no order.
//
// Members are killed now and then, the one that leads among them, and started again.
//
// Before its requests each client makes its member catch up: how far members lag is left to chance in both.
func TestItAnswersAsZooKeeperDoes(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d members", members), func(t *testing.T) {
			cluster := servers.ZooKeeper(t, servers.Members(members), servers.Tick(2*time.Second),
				servers.Config("minSessionTimeout=4000", fmt.Sprint("maxSessionTimeout=", longest)),
				servers.JavaOptions("-Dznode.container.checkIntervalMs=3600000"))
			all := cluster.Members()
			leader := cluster.Leader(t)
			slices.SortStableFunc(all, func(a, b *servers.Member) int { // the ensemble's last one leads, too
				switch leader {
				case a:
					return 1
				case b:
					return -1
				}
				return 0
			})
			e := New(Config{Members: members, Sweep: time.Hour, Version: versionOf(cluster.Version()), Network: atOnce{}})
			defer e.Close()
			for _, m := range e.Members() {
				m.Most = longest * time.Millisecond
			}
			c := &comparison{T: t, rand: rand.New(rand.NewPCG(*realSeed, 0)), members: members, sides: [2]*side{
				{
					dial:     func(m int) (net.Conn, error) { return net.DialTimeout("tcp", all[m].Addr(), 5*time.Second) },
					sessions: map[int64]int{0: 0},
					kill: func(m int) error {
						all[m].Kill()
						if members == 1 {
							return nil
						}
						return cluster.Ready(t.Context())
					},
					start: func(m int) error { return all[m].Start(t.Context()) },
				},
				{
					dial: func(m int) (net.Conn, error) {
						ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
						defer cancel()
						return e.Dial(ctx, fmt.Sprint("c", m), e.Members()[m].Address())
					},
					sessions: map[int64]int{0: 0},
					kill: func(m int) error {
						e.Members()[m].Kill()
						for members > 1 && slices.ContainsFunc(e.Members(), func(m *Member) bool { return m.IsUp() && !m.Serves() }) {
							time.Sleep(10 * time.Millisecond)
						}
						return nil
					},
					start: func(m int) error {
						e.Members()[m].Start()
						for !e.Members()[m].Serves() {
							time.Sleep(10 * time.Millisecond)
						}
						return nil
					},
				},
			}}
			began := time.Now()
			c.run(*realSteps)
			t.Logf("%d requests, %d news, %d connections, %d restarts, %d errors, %d hung up in %v", c.requests, c.news, c.connections, c.restarts, c.errors, c.hungUp,
				time.Since(began).Round(time.Millisecond))
			if !c.lost && (c.news < *realSteps/20 || c.errors < *realSteps/20) {
				t.Error("that is too little")
			}
		})
	}
}

func versionOf(s string) (v Version) {
	fmt.Sscanf(s, "%d.%d.%d", &v.Major, &v.Minor, &v.Patch)
	return v
}

// comparison drives both sides.
type comparison struct {
	*testing.T
	rand    *rand.Rand
	members int
	sides   [2]*side // the real one first
	clients int
	retries int
	lost    bool     // an answer, by ZooKeeper
	late    []string // news that ZooKeeper has not brought yet
	belated int      // how often some was late, or came late
	past    []string

	requests, news, connections, restarts, errors, hungUp int
}

// side is the real servers, or the ensemble.
type side struct {
	dial     func(member int) (net.Conn, error)
	kill     func(member int) error // and waits until the others serve
	start    func(member int) error
	clients  []*rawClient
	sessions map[int64]int // their ids, by the order in which they began
}

// rawClient is one connection.
type rawClient struct {
	net.Conn
	member   int
	id       int64
	password []byte
	xid      int32
	asked    []asked
	over     bool
}

type asked struct {
	op   int32
	body []byte
}

// both does something on both sides, and compares what it comes to.
func (c *comparison) both(what string, do func(s *side) []string) {
	c.Helper()
	c.past = append(c.past, what)
	var said [2][]string
	for i, s := range c.sides {
		said[i] = do(s)
	}
	if c.lost {
		return
	}
	if !slices.Equal(said[0], said[1]) && !c.butForLateNews(said[0], said[1]) {
		c.Fatalf("after\n  %s\nZooKeeper says\n  %s\nand the ensemble\n  %s", strings.Join(c.past[max(0, len(c.past)-*realPast):], "\n  "),
			strings.Join(said[0], "\n  "), strings.Join(said[1], "\n  "))
	}
	c.past[len(c.past)-1] += "\n      " + strings.Join(said[0], "\n      ")
	for _, line := range said[0] {
		switch {
		case strings.HasPrefix(line, "news"):
			c.news++
		case strings.HasPrefix(line, "hung up"):
			c.hungUp++
		case strings.Contains(line, "error -"):
			c.errors++
		}
	}
}

// butForLateNews reports whether both sides say the same, except that ZooKeeper's news comes after an answer, or with a
// later one. A member of several may answer a sync before it has told the news, which is rare.
func (c *comparison) butForLateNews(real, ensemble []string) bool {
	isNews := func(line string) bool { return strings.HasPrefix(line, "news") }
	var answers [2][]string
	for i, said := range [][]string{real, ensemble} {
		answers[i] = slices.DeleteFunc(slices.Clone(said), isNews)
	}
	if c.members == 1 || c.belated == 5 || !slices.Equal(answers[0], answers[1]) {
		return false
	}
	c.belated++
	c.Logf("news is late: %q instead of %q", real, ensemble)
	for _, line := range ensemble {
		if isNews(line) {
			c.late = append(c.late, line)
		}
	}
	for _, line := range real {
		if !isNews(line) {
			continue
		}
		i := slices.Index(c.late, line)
		if i < 0 {
			return false
		}
		c.late = slices.Delete(c.late, i, i+1)
	}
	return true
}

func (c *comparison) run(steps int) {
	for range 4 {
		c.begin()
	}
	c.ask(0, asked{opCreate, create("/t", nil, openACL, 0)})
	for step := range steps {
		if c.lost {
			c.Logf("ZooKeeper has left a request unanswered, after %d steps", step)
			return
		}
		i := c.rand.IntN(c.clients)
		if step%(steps/4+1) == steps/8 {
			c.restart(c.rand.IntN(c.members))
			continue
		}
		switch n := c.rand.IntN(60); {
		case c.sides[0].clients[i].over:
			c.resume(i, c.rand.IntN(3) == 0)
		case n == 0:
			c.closeSession(i)
		case n == 1:
			c.resume(i, false)
		case n == 2:
			c.haunt(i)
		case n == 3 && c.clients < 8:
			c.begin()
		case n == 5: // it may be answered before earlier requests
			c.both(fmt.Sprintf("c%d says who it is", i), func(s *side) []string {
				var e encoder
				e.int(0)
				e.string("digest")
				e.bytes([]byte("u:p"))
				return append(s.sync(c, i), s.ask(c, s.clients[i], asked{opAuth, e.b})...)
			})
		case n == 4:
			c.both(fmt.Sprintf("c%d asks for what there is not", i), func(s *side) []string {
				said := append(s.sync(c, i), s.ask(c, s.clients[i], asked{77, nil})...)
				return append(said, s.hear(c, s.clients[i], 1)...)
			})
		default:
			var all []asked
			for range 1 + c.rand.IntN(3) {
				all = append(all, c.anything())
				if all[len(all)-1].op == opSetACL { // it may not count yet for what comes right behind it
					break
				}
			}
			c.ask(i, all...)
		}
	}
}

// restart kills a member, even the one that leads, and starts it again when the others have gone on for a while.
func (c *comparison) restart(m int) {
	c.restarts++
	everybody := func(s *side) (said []string) {
		for i, cl := range s.clients {
			if !cl.over {
				said = append(said, fmt.Sprintf("c%d:", i))
				said = append(said, s.sync(c, i)...)
			}
		}
		return said
	}
	c.both("everybody catches up", everybody)
	c.both(fmt.Sprintf("member %d is killed", m), func(s *side) []string {
		if err := s.kill(m); err != nil {
			c.Fatal(err)
		}
		return everybody(s)
	})
	if c.members > 1 {
		for range 20 {
			i := c.rand.IntN(c.clients)
			if !c.sides[0].clients[i].over {
				c.ask(i, c.anything())
			}
		}
	}
	c.both(fmt.Sprintf("member %d is started again", m), func(s *side) []string {
		if err := s.start(m); err != nil {
			c.Fatal(err)
		}
		return everybody(s)
	})
}

// begin opens a session.
func (c *comparison) begin() {
	i, m, timeout := c.clients, c.rand.IntN(c.members), []int32{long, 2 * longest}[c.rand.IntN(2)]
	c.clients++
	c.both(fmt.Sprintf("c%d begins on member %d", i, m), func(s *side) []string {
		s.clients = append(s.clients, new(rawClient))
		return s.connect(c, i, m, 0, timeout, nil, 0)
	})
	c.connections++
}

// resume goes on with a session, or with a wrong password, which ends in another one.
func (c *comparison) resume(i int, wrong bool) {
	m := c.rand.IntN(c.members)
	c.both(fmt.Sprintf("c%d goes on at member %d (%v)", i, m, wrong), func(s *side) []string {
		cl := s.clients[i]
		cl.Close()
		password, seen := cl.password, int64(0)
		if wrong {
			password = make([]byte, 16)
		}
		said := s.connect(c, i, m, cl.id, long, password, seen)
		if cl := s.clients[i]; cl.id == 0 {
			said = append(said, s.connect(c, i, m, 0, long, nil, 0)...)
		}
		return said
	})
	c.connections++
	if c.rand.IntN(5) == 0 { // a client that has seen more than there is
		c.both(fmt.Sprintf("c%d has seen too much", i), func(s *side) []string {
			other := &rawClient{}
			s.clients = append(s.clients, other)
			defer func() { s.clients = s.clients[:len(s.clients)-1] }()
			return s.connect(c, len(s.clients)-1, m, s.clients[i].id, long, s.clients[i].password, 1<<60)
		})
	}
}

// haunt goes on with a session elsewhere, and then asks on the earlier connection.
func (c *comparison) haunt(i int) {
	m, write := c.rand.IntN(c.members), c.rand.IntN(2) == 0 && (c.members == 1 || c.rand.IntN(16) == 0)
	c.both(fmt.Sprintf("c%d goes on at member %d, and then asks on the connection before (%v)", i, m, write), func(s *side) []string {
		old := s.clients[i]
		said := s.sync(c, i)
		s.clients[i] = &rawClient{id: old.id, password: old.password}
		said = append(said, s.connect(c, i, m, old.id, long, old.password, 0)...)
		said = append(said, s.sync(c, i)...)
		r := asked{opExists, pathAndWatch("/t/never", false)}
		if write {
			r = asked{opSetData, setData("/t", []byte("from the grave"), -1)}
		}
		defer old.Close()
		if old.member == m { // ZooKeeper means to hang up, but may forget a connection that it has just accepted
			return said
		}
		for _, line := range s.ask(c, old, r) {
			said = append(said, stale.ReplaceAllString(line, ""))
		}
		return said
	})
	c.connections++
}

// stale is what a member that lags may say.
var stale = regexp.MustCompile(` at \d+`)

func (c *comparison) closeSession(i int) {
	c.both(fmt.Sprintf("c%d ends its session", i), func(s *side) []string {
		said := s.ask(c, s.clients[i], asked{opSync, str("/t")}, asked{opCloseSession, nil})
		said = append(said, s.hear(c, s.clients[i], 1)...)
		slices.Sort(said) // its nodes go in no order
		for j, other := range s.clients {
			if j != i && !other.over {
				news := s.sync(c, j)
				slices.Sort(news)
				said = append(said, news...)
			}
		}
		return said
	})
	c.both(fmt.Sprintf("c%d begins again", i), func(s *side) []string { return s.connect(c, i, 0, 0, long, nil, 0) })
}

// ask makes requests one right behind the other, when the member has caught up.
func (c *comparison) ask(i int, all ...asked) {
	what := fmt.Sprintf("c%d asks", i)
	for _, a := range all {
		what += fmt.Sprintf(" %d %q", a.op, a.body)
	}
	c.requests += len(all)
	c.both(what, func(s *side) []string {
		return s.ask(c, s.clients[i], append([]asked{{opSync, str("/t")}}, all...)...)
	})
}

func (s *side) sync(c *comparison, i int) []string {
	return s.ask(c, s.clients[i], asked{opSync, str("/t")})
}

func (s *side) connect(c *comparison, i, member int, id int64, timeout int32, password []byte, seen int64) []string {
	conn, err := s.dial(member)
	if err != nil {
		c.Fatal(err)
	}
	cl := &rawClient{Conn: conn, member: member}
	s.clients[i] = cl
	c.Cleanup(func() { conn.Close() })
	var e encoder
	e.int(0)
	e.long(seen)
	e.int(timeout)
	e.long(id)
	if password == nil {
		password = make([]byte, 16)
	}
	e.bytes(password)
	if _, err := conn.Write(e.frame()); err != nil {
		c.Fatal(err)
	}
	b, err := readFrame(conn)
	if err != nil && seen == 0 && s == c.sides[0] && c.retries < 5 { // a server that is closing another connection may hang up
		c.retries++
		return s.connect(c, i, member, id, timeout, password, seen)
	}
	if err != nil {
		cl.over = true
		return []string{"hung up"}
	}
	in := &decoder{b: b}
	version, granted, session := in.int(), in.int(), in.long()
	cl.id, cl.password = session, in.bytes()
	if _, known := s.sessions[session]; !known {
		s.sessions[session] = len(s.sessions)
	}
	cl.over = session == 0
	return []string{fmt.Sprintf("greeting %d %d session %d, %d more", version, granted, s.sessions[session], len(in.b))}
}

func readFrame(conn net.Conn) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(conn, b)
	return b, err
}

// ask sends requests in one piece, and returns all that is said until the last is answered.
func (s *side) ask(c *comparison, cl *rawClient, all ...asked) []string {
	var out []byte
	for _, a := range all {
		var e encoder
		cl.xid++
		e.int(cl.xid)
		e.int(a.op)
		e.b = append(e.b, a.body...)
		out = append(out, e.frame()...)
	}
	cl.asked = append(cl.asked, all...)
	if _, err := cl.Write(out); err != nil {
		cl.over = true
		return []string{"hung up"}
	}
	return s.hear(c, cl, len(all))
}

// hear returns what is said until so many requests are answered.
func (s *side) hear(c *comparison, cl *rawClient, replies int) (said []string) {
	for replies > 0 {
		b, err := readFrame(cl)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if s == c.sides[0] && c.members > 1 {
				c.lost = true // seen on 3.8.0, now and then, after a session has moved: it never answers
				return said
			}
			c.Fatalf("no answer: %s", strings.Join(append(c.past[max(0, len(c.past)-25):], said...), "\n  "))
		}
		if err != nil {
			cl.over = true
			return append(said, "hung up")
		}
		in := &decoder{b: b}
		xid, zxid, code := in.int(), in.long(), in.int()
		if xid == xidEvent {
			said = append(said, fmt.Sprintf("news %d: type %d state %d %s", s.zxid(zxid), in.int(), in.int(), in.string()))
			continue
		}
		a := cl.asked[0]
		cl.asked = cl.asked[1:]
		replies--
		if c.members > 1 && !(&request{op: a.op}).needsLeader() || a.op == opSync {
			zxid = 0 // a member of several may answer while it still makes a change of others, or one that failed
		}
		said = append(said, fmt.Sprintf("answer %d to %d at %d: error %d %s", xid, a.op, s.zxid(zxid), code, s.render(a.op, code, in)))
	}
	return said
}

// zxid leaves out which leader it was.
func (s *side) zxid(zxid int64) int64 {
	if zxid < 0 {
		return zxid
	}
	return zxid & 0xffffffff
}

func (s *side) render(op, code int32, in *decoder) string {
	if code != 0 || len(in.b) == 0 {
		return fmt.Sprintf("%x", in.b)
	}
	switch op {
	case opCreate, opSync:
		return in.string() + rest(in)
	case opCreate2, opCreateContainer:
		return in.string() + s.stat(in) + rest(in)
	case opExists, opSetData, opSetACL:
		return s.stat(in) + rest(in)
	case opGetData:
		return fmt.Sprintf("%q", in.bytes()) + s.stat(in) + rest(in)
	case opGetChildren, opGetEphemerals:
		names := in.strings()
		slices.Sort(names)
		return fmt.Sprint(names) + rest(in)
	case opGetChildren2:
		names := in.strings()
		slices.Sort(names)
		return fmt.Sprint(names) + s.stat(in) + rest(in)
	case opGetACL:
		return fmt.Sprint(in.acl()) + s.stat(in) + rest(in)
	case opMulti:
		var all string
		for {
			op, over, err := in.int(), in.bool(), in.int()
			all += fmt.Sprintf("[%d %v %d ", op, over, err)
			if over || in.bad {
				return all + rest(in)
			}
			switch op {
			case opError:
				all += fmt.Sprint(in.int())
			case opCreate:
				all += in.string()
			case opCreate2, opCreateContainer:
				all += in.string() + s.stat(in)
			case opSetData:
				all += s.stat(in)
			}
			all += "]"
		}
	}
	return rest(in)
}

func rest(in *decoder) string { return fmt.Sprintf(" %x %v", in.b, in.bad) }

func (s *side) stat(in *decoder) string {
	czxid, mzxid := in.long(), in.long()
	in.next(16) // times
	version, cversion, aversion, owner := in.int(), in.int(), in.int(), in.long()
	length, children, pzxid := in.int(), in.int(), in.long()
	whose := fmt.Sprint(owner)
	if n, known := s.sessions[owner]; known {
		whose = fmt.Sprint("session ", n)
	}
	return fmt.Sprintf(" {made %d changed %d versions %d %d %d owner %s length %d children %d changed %d}", s.zxid(czxid), s.zxid(mzxid), version,
		cversion, aversion, whose, length, children, s.zxid(pzxid))
}

// What may be asked.

func str(s string) []byte {
	var e encoder
	e.string(s)
	return e.b
}

func create(p string, data []byte, acl []ACL, flags int32) []byte {
	var e encoder
	e.string(p)
	e.bytes(data)
	e.acl(acl)
	e.int(flags)
	return e.b
}

func setData(p string, data []byte, version int32) []byte {
	var e encoder
	e.string(p)
	e.bytes(data)
	e.int(version)
	return e.b
}

func pathAndVersion(p string, version int32) []byte {
	var e encoder
	e.string(p)
	e.int(version)
	return e.b
}

func pathAndWatch(p string, watch bool) []byte {
	var e encoder
	e.string(p)
	e.bool(watch)
	return e.b
}

func (c *comparison) path() string {
	switch c.rand.IntN(24) {
	case 0:
		return "/t/none/" + string(rune('a'+c.rand.IntN(3)))
	case 1:
		return []string{"/t//a", "/t/a/", "t/a", "/t/./a", "/t/\x01"}[c.rand.IntN(5)]
	case 2:
		return "/t"
	}
	p := "/t/" + string(rune('a'+c.rand.IntN(4)))
	for c.rand.IntN(3) == 0 {
		p += "/" + string(rune('x'+c.rand.IntN(3)))
	}
	return p
}

func (c *comparison) version() int32 {
	if c.rand.IntN(3) == 0 {
		return int32(c.rand.IntN(3))
	}
	return -1
}

func (c *comparison) acl() []ACL {
	switch c.rand.IntN(12) {
	case 0:
		return nil
	case 1:
		return []ACL{{permAll, "auth", ""}}
	case 2:
		return []ACL{{permRead, "world", "anyone"}}
	case 3:
		return []ACL{{permAll &^ permRead, "world", "anyone"}, {permAll, "digest", digest("u:p")}}
	case 4:
		return []ACL{{permAll, "digest", "no colon"}}
	}
	return openACL
}

func (c *comparison) data() []byte {
	if c.rand.IntN(6) == 0 {
		return nil
	}
	return []byte(fmt.Sprint(c.rand.IntN(1000)))
}

// change is something that a transaction may hold, too.
func (c *comparison) change() asked {
	p := c.path()
	switch c.rand.IntN(9) {
	case 0, 1:
		return asked{opDelete, pathAndVersion(p, c.version())}
	case 2:
		return asked{opSetData, setData(p, c.data(), c.version())}
	case 3:
		return asked{opCreate2, create(p, c.data(), c.acl(), int32(c.rand.IntN(4)))}
	case 4:
		return asked{opCreate, create(p+"/s-", c.data(), c.acl(), 2+int32(c.rand.IntN(2)))}
	default:
		return asked{opCreate, create(p, c.data(), c.acl(), []int32{0, 0, 1, 1, 2, 3}[c.rand.IntN(6)])}
	}
}

func (c *comparison) anything() asked {
	p, watch := c.path(), c.rand.IntN(2) == 0
	watch = watch && p != "/t/d" // before 3.9, another watch on the same node ends one that stays (ZOOKEEPER-4466)
	switch c.rand.IntN(25) {
	case 0, 1, 2:
		return asked{opExists, pathAndWatch(p, watch)}
	case 3, 4, 5:
		return asked{opGetData, pathAndWatch(p, watch)}
	case 6, 7:
		return asked{opGetChildren2, pathAndWatch(p, watch)}
	case 8:
		return asked{opGetChildren, pathAndWatch(p, watch)}
	case 9:
		return asked{opGetACL, str(p)}
	case 10:
		var e encoder
		e.string(p)
		e.acl(c.acl())
		e.int(c.version())
		return asked{opSetACL, e.b}
	case 11, 12, 13:
		var e encoder
		for range 1 + c.rand.IntN(3) {
			a := c.change()
			if c.rand.IntN(4) == 0 {
				a = asked{opCheck, pathAndVersion(c.path(), c.version())}
			}
			e.int(a.op)
			e.bool(false)
			e.int(-1)
			e.b = append(e.b, a.body...)
		}
		e.int(-1)
		e.bool(true)
		e.int(-1)
		return asked{opMulti, e.b}
	case 14:
		var e encoder
		e.long(int64(c.rand.IntN(2)) << 50) // everything is news, or nothing
		for range 3 {
			var all []string
			for range c.rand.IntN(4) {
				all = append(all, "/t/"+string(rune('a'+c.rand.IntN(3))))
			}
			e.strings(slices.Compact(slices.Sorted(slices.Values(all))))
		}
		return asked{opSetWatches, e.b}
	case 15:
		return asked{opGetEphemerals, str([]string{"", "/t/a", "/t"}[c.rand.IntN(3)])}
	case 16:
		if c.rand.IntN(3) > 0 {
			break
		}
		return asked{opAddWatch, pathAndVersion("/t/d", int32(c.rand.IntN(2)))}
	case 17:
		return asked{opCreateContainer, create(p, c.data(), c.acl(), 4)}
	}
	return c.change()
}
