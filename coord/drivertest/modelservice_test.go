package drivertest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// modelService is the smallest service that a driver can work on: lines of numbered nodes, sessions that end when nothing
// is heard from them, and news of a node for whoever asked for it. The suite proves itself on it, with modelDriver and the
// flaws that can be planted in both.
type modelService struct {
	ttl    time.Duration
	nature driver.Strength // what it really does
	flaw   flaw

	mu       sync.Mutex
	counter  driver.Token
	lines    map[string][]*modelNode
	sessions map[int64]*modelSession
	lastID   int64
	changes  uint64 // of lines
	memos    map[string]string
	calls    map[string]int64 // by node, the latest one that has written a memo
	quiet    time.Time        // until then nobody gets a session
	links    []*FaultLink
	stop     chan struct{}
}

type modelNode struct {
	driver.Node
	session  int64
	foreign  bool
	watchers map[*modelDriver]bool
}

type modelSession struct {
	expires time.Time
	refused map[string]bool // ids of joins that must no longer be applied
}

// modelNews is what a watcher is told about a node: it was amended, or it left.
type modelNews struct {
	id   string
	left bool
	held bool
}

func newModelService(ttl time.Duration, nature driver.Strength, f flaw) *modelService {
	svc := &modelService{
		ttl: ttl, nature: nature, flaw: f,
		lines:    map[string][]*modelNode{},
		sessions: map[int64]*modelSession{},
		memos:    map[string]string{},
		calls:    map[string]int64{},
		stop:     make(chan struct{}),
	}
	if nature.Death&driver.ByTTL != 0 {
		go svc.expire()
	}
	return svc
}

func (svc *modelService) expire() {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-svc.stop:
			return
		case now := <-tick.C:
			svc.mu.Lock()
			for id, s := range svc.sessions {
				if now.After(s.expires) {
					svc.endLocked(id)
				}
			}
			svc.mu.Unlock()
		}
	}
}

// restart loses the connections, and whatever such a service forgets.
func (svc *modelService) restart() {
	svc.mu.Lock()
	if svc.nature.Restart < driver.Remembers {
		clear(svc.lines)
		clear(svc.sessions)
		clear(svc.memos)
		if svc.nature.Restart == driver.ForgetsOpenly {
			svc.quiet = time.Now().Add(svc.ttl)
		}
		if svc.nature.Tokens < driver.RiseForEver {
			svc.counter = 0
		}
	}
	for _, s := range svc.sessions {
		s.expires = time.Now().Add(svc.ttl)
	}
	links := slices.Clone(svc.links)
	svc.mu.Unlock()
	for _, l := range links {
		l.Cut()()
	}
}

// open returns 0 if nobody gets a session at the moment.
func (svc *modelService) open() int64 {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	if time.Now().Before(svc.quiet) {
		return 0
	}
	svc.lastID++
	svc.sessions[svc.lastID] = &modelSession{expires: time.Now().Add(svc.ttl), refused: map[string]bool{}}
	return svc.lastID
}

func (svc *modelService) renew(session int64) bool {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	s := svc.sessions[session]
	if s != nil {
		s.expires = time.Now().Add(svc.ttl)
	}
	return s != nil
}

func (svc *modelService) end(session int64) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	svc.endLocked(session)
}

func (svc *modelService) endLocked(session int64) {
	delete(svc.sessions, session)
	if svc.flaw == deadNodesStay {
		return
	}
	for line := range svc.lines {
		for _, n := range slices.Clone(svc.lines[line]) {
			if n.session == session {
				svc.deleteLocked(n, false)
			}
		}
	}
}

// join puts a node at the end of its line. alive is false if the session has ended, and me is nil if this id was fenced
// off.
func (svc *modelService) join(session int64, n driver.Node) (me *driver.Node, ahead []driver.Node, alive bool) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	s := svc.sessions[session]
	if s == nil {
		return nil, nil, false
	}
	if s.refused[n.ID] {
		return nil, nil, true
	}
	svc.counter++
	n.Token = svc.counter
	if svc.flaw == tokensRestart {
		n.Token = 1
		if all := svc.lines[n.Line]; len(all) > 0 {
			n.Token = all[len(all)-1].Token + 1
		}
	}
	svc.changes++
	ahead = svc.nodesLocked(n.Line)
	svc.lines[n.Line] = append(svc.lines[n.Line], &modelNode{Node: n, session: session, watchers: map[*modelDriver]bool{}})
	return &n, ahead, true
}

// fence makes sure that the join with this id is not applied, now or later.
func (svc *modelService) fence(session int64, line, id string) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	if s := svc.sessions[session]; s != nil && svc.flaw != lateApplyNotFenced {
		s.refused[id] = true
	}
	if n := svc.findLocked(line, id); n != nil {
		svc.deleteLocked(n, false)
	}
}

func (svc *modelService) leave(line, id string, held bool) bool {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	n := svc.findLocked(line, id)
	if n != nil {
		svc.deleteLocked(n, held)
	}
	return n != nil
}

// leaveAll removes every node of a session from a line, as a driver might do that knows its nodes only by line.
func (svc *modelService) leaveAll(line string, session int64, held bool) bool {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	for _, n := range slices.Clone(svc.lines[line]) {
		if n.session == session {
			svc.deleteLocked(n, held)
		}
	}
	return true
}

// amend returns false if the node has gone.
func (svc *modelService) amend(me driver.Node) bool {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	n := svc.findLocked(me.Line, me.ID)
	if n == nil {
		if svc.flaw == amendCreates {
			n = &modelNode{Node: me, watchers: map[*modelDriver]bool{}}
			svc.lines[me.Line] = append(svc.lines[me.Line], n)
			return true
		}
		return false
	}
	svc.changes++
	n.Kind, n.Data = me.Kind, slices.Clone(me.Data)
	if svc.flaw == amendMovesBack {
		svc.counter++
		n.Token = svc.counter
	}
	svc.tellLocked(n, modelNews{id: n.ID})
	return true
}

// remember returns false if the node has gone. Of a node's memos the latest stays, though an earlier call may come later.
func (svc *modelService) remember(me driver.Node, call int64, memo string) bool {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	if svc.findLocked(me.Line, me.ID) == nil && svc.flaw != memoOfTheGone {
		return false
	}
	line := me.Line
	if svc.flaw == memosFold {
		line = strings.ToLower(line)
	}
	if call < svc.calls[me.ID] && svc.flaw != memoTryLate {
		return true
	}
	svc.calls[me.ID] = call
	svc.memos[line] = memo
	return true
}

// shows returns the line, and how often any line has changed.
func (svc *modelService) shows(line string) driver.Look {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	return driver.Look{Nodes: svc.nodesLocked(line), At: svc.changes}
}

// look returns the line and asks for news of the nodes with the given ids.
func (svc *modelService) look(d *modelDriver, line string, watch ...string) []driver.Node {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	for _, id := range watch {
		if n := svc.findLocked(line, id); n != nil {
			n.watchers[d] = true
		}
	}
	return svc.nodesLocked(line)
}

func (svc *modelService) names(prefix string) []string {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	var names []string
	for line := range svc.lines {
		if strings.HasPrefix(line, prefix) && len(svc.nodesLocked(line)) > 0 {
			names = append(names, line)
		}
	}
	slices.Sort(names)
	return names
}

// stored returns the ids of all nodes in a line.
func (svc *modelService) stored(line string) []string {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	var ids []string
	for _, n := range svc.lines[line] {
		ids = append(ids, n.ID)
	}
	return ids
}

func (svc *modelService) plant(line string) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	svc.lines[line] = append(svc.lines[line], &modelNode{Node: driver.Node{Line: line, ID: "foreign"}, foreign: true})
}

func (svc *modelService) meddle(_ testing.TB, line string) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	for _, n := range svc.lines[line] {
		n.Data = append(slices.Clone(n.Data), '!')
		svc.tellLocked(n, modelNews{id: n.ID})
	}
}

func (svc *modelService) uproot(line string) {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	svc.lines[line] = slices.DeleteFunc(svc.lines[line], func(n *modelNode) bool { return n.foreign })
}

func (svc *modelService) nodesLocked(line string) []driver.Node {
	var nodes []driver.Node
	for name, all := range svc.lines {
		folded := svc.flaw == namesFold && strings.EqualFold(name, line)
		if name != line && !folded && !(svc.flaw == nestedLinesCount && strings.HasPrefix(name, line+"/")) {
			continue
		}
		for _, n := range all {
			if !n.foreign || svc.flaw == foreignersCount {
				c := n.Node
				c.Data = slices.Clone(c.Data)
				nodes = append(nodes, c)
			}
		}
	}
	slices.SortFunc(nodes, func(a, b driver.Node) int { return int(a.Token - b.Token) })
	return nodes
}

func (svc *modelService) findLocked(line, id string) *modelNode {
	for _, n := range svc.lines[line] {
		if n.ID == id {
			return n
		}
	}
	return nil
}

func (svc *modelService) deleteLocked(n *modelNode, held bool) {
	svc.changes++
	svc.lines[n.Line] = slices.DeleteFunc(svc.lines[n.Line], func(o *modelNode) bool { return o == n })
	if len(svc.lines[n.Line]) == 0 {
		delete(svc.lines, n.Line)
	}
	svc.tellLocked(n, modelNews{id: n.ID, left: true, held: held})
	if svc.flaw == herd {
		for _, o := range svc.lines[n.Line] {
			svc.tellLocked(o, modelNews{id: o.ID})
		}
	}
}

func (svc *modelService) tellLocked(n *modelNode, news modelNews) {
	for d := range n.watchers {
		d.link.Tell(0, func() { d.heard(news) })
	}
}
