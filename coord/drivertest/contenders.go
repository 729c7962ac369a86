package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

// Obligation 10, and what the driver shows of lines.
var contenders = []scenario{
	{name: "foreign children do not count", run: foreignersDoNotCount},
	{name: "nested lines do not disturb each other", run: nestedLines},
	{name: "names of every sort", run: namesOfEverySort},
	{name: "names that look alike", run: namesThatLookAlike},
	{name: "a line shows its nodes in order, with owner and data", run: lineShowsAll},
	{name: "kinds of every length", run: kindsOfEveryLength},
	{name: "a line that nobody used is empty", run: unusedLine},
	{name: "lines are found by the beginning of their names", run: linesByPrefix},
}

func foreignersDoNotCount(s *scene) {
	s.needs("plant foreign things", s.svc.PlantForeign == nil)
	p := s.pair()
	waiter := s.await(p.behind, p.ahead.Node())
	s.svc.PlantForeign(s, s.line)
	planted := len(s.svc.Stored(s, s.line)) - 2
	if planted < 1 {
		s.Fatalf("the harness has planted nothing: stored are %q", s.svc.Stored(s, s.line))
	}
	if nodes := s.look(p.aheadLink); len(nodes) != 2 || nodes[0].ID != p.ahead.Node().ID || nodes[1].ID != p.behind.Node().ID {
		s.Errorf("Line shows %v, want %v", brief(nodes...), brief(p.ahead.Node(), p.behind.Node()))
	}
	s.leave(p.ahead, false)
	s.turn(soon, waiter, "nothing but foreign things is ahead")
	me, ahead := s.join(p.aheadSess)
	if len(ahead) != 1 || ahead[0].ID != p.behind.Node().ID {
		s.Errorf("ahead are %v, want %v", brief(ahead...), brief(p.behind.Node()))
	}
	s.leave(me, false)
	s.leave(p.behind, true)
	me, _ = s.joinAs(p.aheadSess, asTry(s.entry("lock")))
	s.leave(me, true)
	s.settles(s.line, planted)
	if lines := s.lines(p.aheadLink, s.line); len(lines) > 0 {
		s.Errorf("Lines shows %q, where nobody stands", lines)
	}
}

func (s *scene) lines(l *Link, prefix string) []string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	names, err := l.Lines(ctx, prefix)
	if err != nil {
		s.Fatalf("Lines: %v", err)
	}
	return names
}

func nestedLines(s *scene) {
	sess, l := s.session()
	// The innermost comes first, so that it exists before the outer ones are used.
	names := []string{s.line + "/a/b/c", s.line + "/a", s.line, s.line + "/lock", s.line + "/a/b"}
	mine := map[string]driver.Place{}
	for _, name := range names {
		e := s.entry("lock")
		e.Line = name
		me, ahead := s.joinAs(sess, e)
		if len(ahead) > 0 {
			s.Errorf("the first in %q sees %v ahead", name, brief(ahead...))
		}
		mine[name] = me
	}
	slices.Sort(names)
	if found := s.lines(l, s.line); !slices.Equal(found, names) {
		s.Errorf("Lines shows %q, want %q", found, names)
	}
	for _, name := range names {
		if nodes := s.lookAt(l, name); len(nodes) != 1 || nodes[0].ID != mine[name].Node().ID || nodes[0].Line != name {
			s.Errorf("Line shows %v in %q, want %v", brief(nodes...), name, brief(mine[name].Node()))
		}
	}
	// The outer line is emptied, and used again, while the inner ones are in use.
	s.leave(mine[s.line], true)
	me, ahead := s.join(sess)
	if len(ahead) > 0 {
		s.Errorf("in an empty line %v are ahead", brief(ahead...))
	}
	mine[s.line] = me
	for _, name := range names {
		s.leave(mine[name], true)
		if nodes := s.lookAt(l, name); len(nodes) > 0 {
			s.Errorf("Line shows %v in the empty line %q", brief(nodes...), name)
		}
	}
}

func namesOfEverySort(s *scene) {
	sess, l := s.session()
	long := strings.Repeat("x", 251)
	segments := []string{
		"with spaces  in it ", "%2F", "100%", "a%20b", "a+b", `back\slash`, `quo"te'`, "semi;colon", "que?ry", "ha#sh", "*", "[a]", "{}",
		"_c_0123456789abcdef0123456789abcdef-lock-0000000001", "_c_x", "lock-0000000001", "lock-", "0000000001", "-1", "lock", "left", "R", "S1of2",
		"zookeeper", "members", "leader", "...", "..a", ".a", "a.", "~", "|", "ünïcödé", "漢字", "😀", "\u00a0", "\u3000", "e\u0301", "\ufffd",
		long + "long", strings.Repeat("漢", 85),
	}
	for _, seg := range segments {
		s.usesName(sess, l, s.line+"/"+seg)
	}
	full := s.line
	for len(full) < 1024 {
		n := min(255, 1024-len(full)-1)
		if 1024-len(full)-1-n == 1 {
			n-- // a slash alone cannot be the end
		}
		full += "/" + strings.Repeat("y", n)
	}
	s.usesName(sess, l, full)
	deep := s.line + strings.Repeat("/d", (1024-len(s.line))/2)
	s.usesName(sess, l, deep)
}

// usesName does the usual things in a line of this name.
func (s *scene) usesName(sess driver.Session, l *Link, name string) {
	s.Helper()
	if err := coord.CheckName(name); err != nil {
		s.Fatal(err)
	}
	e := s.entry("lock")
	e.Line = name
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	me, ahead, err := sess.Join(ctx, e)
	if err != nil {
		s.Errorf("Join of %q: %v", name, err)
		return
	}
	if me.Node().Line != name || len(ahead) > 0 {
		s.Errorf("Join of %q: %v in line %q, ahead %v", name, brief(me.Node()), me.Node().Line, brief(ahead...))
	}
	if nodes := s.lookAt(l, name); len(nodes) != 1 || nodes[0].ID != me.Node().ID || nodes[0].Line != name {
		s.Errorf("Line shows %v in %q, want %v", brief(nodes...), name, brief(me.Node()))
	}
	if found := s.lines(l, name); !slices.Equal(found, []string{name}) {
		s.Errorf("Lines shows %q, want %q", found, name)
	}
	s.leave(me, true)
}

// Names that a driver encodes for its service must not become the same.
func namesThatLookAlike(s *scene) {
	sess, _ := s.session()
	for _, seg := range []string{
		"a b", "a%20b", "a+b", "a%2520b", "a_b", "A b", "ab", "a", "A", "a.", "a%", "a%2", "a\u0301", "\u00e1", "%", "%25", "%%", "_", "__", "-", "=", "==", "é", "e",
	} {
		e := s.entry("lock")
		e.Line = s.line + "/" + seg
		if me, ahead := s.joinAs(sess, e); len(ahead) > 0 {
			s.Errorf("the first in %q, %v, sees %v ahead", e.Line, brief(me.Node()), brief(ahead...))
		}
	}
}

func lineShowsAll(s *scene) {
	a, l := s.session()
	b, _ := s.session()
	binary := make([]byte, 64<<10)
	for i := range binary {
		binary[i] = byte(rand.Uint32())
	}
	var joined []driver.Place
	for i, data := range [][]byte{nil, {0}, []byte("a value\nof two lines"), binary, {}, []byte("turnwise 1 \"x\"\n")} {
		e := s.entry([]string{"lock", "lead", "R", "W", "S2of3", "lock"}[i])
		e.Owner = driver.Owner{Host: fmt.Sprintf("host %d \"ü\"", i), PID: i, Label: strings.Repeat("\n", i), Since: owner.Since.Add(time.Duration(i) * time.Hour)}
		e.Data = data
		sess := a
		if i%2 == 1 {
			sess = b
		}
		me, ahead := s.joinAs(sess, e)
		if !bytes.Equal(me.Node().Data, data) || me.Node().Owner != e.Owner {
			s.Errorf("Join returned %+v for the entry of number %d", me.Node().Owner, i)
		}
		if (len(ahead) == 0) != (i == 0) {
			s.Errorf("number %d sees %v ahead", i, brief(ahead...))
		}
		joined = append(joined, me)
	}
	nodes := s.look(l)
	if len(nodes) != len(joined) {
		s.Fatalf("Line shows %v, want %v", brief(nodes...), brief(nodesOf(joined)...))
	}
	for i, n := range nodes {
		s.shownAs(fmt.Sprint("number ", i), n, joined[i].Node())
	}
	for i, me := range joined {
		s.leave(me, i == 0)
	}
	s.gone(s.line)
}

// shownAs checks that Line shows a node as it was stored.
func (s *scene) shownAs(what string, n, stored driver.Node) {
	s.Helper()
	if n.ID != stored.ID || n.Token != stored.Token || n.Kind != stored.Kind || n.Line != stored.Line {
		s.Errorf("%s: Line shows %v, Join returned %v", what, brief(n), brief(stored))
	}
	if !bytes.Equal(n.Data, stored.Data) {
		s.Errorf("%s: Line shows %d bytes of data, stored were %d", what, len(n.Data), len(stored.Data))
	}
	if len(n.Data) == 0 && n.Data != nil {
		s.Errorf("%s: no data is nil", what)
	}
	since := stored.Owner.Since
	if n.Owner.Since.Equal(since) {
		n.Owner.Since = since // in another location, perhaps
	}
	if n.Owner != stored.Owner {
		s.Errorf("%s: Line shows the owner %+v, stored was %+v", what, n.Owner, stored.Owner)
	}
}

func kindsOfEveryLength(s *scene) {
	sess, l := s.session()
	for _, kind := range []string{"x", "9", "lock", "S9223372036854775807of9223372036854775807", strings.Repeat("Kind0123", driver.MaxKind/8)} {
		me, _ := s.joinAs(sess, s.entry(kind))
		if n := s.look(l); len(n) != 1 || n[0].Kind != kind {
			s.Errorf("Line shows %v, the kind is %q", brief(n...), kind)
		}
		s.leave(me, true)
	}
}

func unusedLine(s *scene) {
	l := s.connect()
	if nodes := s.look(l); len(nodes) > 0 {
		s.Errorf("Line shows %v", brief(nodes...))
	}
	if nodes := s.lookAt(l, s.line+"/a/b"); len(nodes) > 0 {
		s.Errorf("Line shows %v", brief(nodes...))
	}
	if names := s.lines(l, s.line); len(names) > 0 {
		s.Errorf("Lines shows %q", names)
	}
	if err := l.Remove(s.ctx, driver.Node{Line: s.line, ID: "no such node", Kind: "lock", Token: 1}); err == nil {
		s.Error("Remove of a node that never was: nil")
	}
}

func linesByPrefix(s *scene) {
	sess, l := s.session()
	for _, name := range []string{"ab", "a/b", "a/b/c", "b", "a b"} {
		e := s.entry("lock")
		e.Line = s.line + "/" + name
		s.joinAs(sess, e)
	}
	for prefix, want := range map[string][]string{
		"":         {"a b", "a/b", "a/b/c", "ab", "b"},
		"/":        {"a b", "a/b", "a/b/c", "ab", "b"},
		"/a":       {"a b", "a/b", "a/b/c", "ab"},
		"/a/":      {"a/b", "a/b/c"},
		"/a/b":     {"a/b", "a/b/c"},
		"/a/b/c":   {"a/b/c"},
		"/a/b/c/":  nil,
		"/nothing": nil,
	} {
		for i := range want {
			want[i] = s.line + "/" + want[i]
		}
		if found := s.lines(l, s.line+prefix); !slices.Equal(found, want) {
			s.Errorf("Lines(%q) shows %q, want %q", s.line+prefix, found, want)
		}
	}
	if all := s.lines(l, ""); !slices.Contains(all, s.line+"/a/b/c") || !slices.IsSorted(all) {
		s.Errorf("Lines of every name: %q", all)
	}
}
