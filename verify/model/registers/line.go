package registers

const most = 3 // processes

// Config is one family of runs.
type Config struct {
	Processes int

	// How often each of these happens at most.
	Lost, Removed, Deleted int
	GiveUp, Expire         bool

	// What is planted.
	NoFence, CountedVersions, FirstTryCounts, ToldBefore, ExpireFirst, RemovedUntold, NextUntold, EpochStays, DeletedAtOnce bool
}

// node is a process that stands in line. Its token is greater than all that were given before.
type node struct{ who, token byte }

// line is what stands in the register. Version zero: nothing does.
type line struct {
	version, seq, next byte
	n                  byte
	nodes              [most + 1]node
}

func (l *line) stands(who int) (node, bool) {
	for _, n := range l.nodes[:l.n] {
		if int(n.who) == who {
			return n, true
		}
	}
	return node{}, false
}

func (l *line) first(who int) bool { return l.n > 0 && int(l.nodes[0].who) == who }

func (l *line) remove(who int) bool {
	for k, n := range l.nodes[:l.n] {
		if int(n.who) == who {
			copy(l.nodes[k:], l.nodes[k+1:l.n])
			l.n--
			l.nodes[l.n] = node{}
			return true
		}
	}
	return false
}

// swap is a request on its way.
type swap struct {
	sent bool
	old  byte
	next line
	turn byte // bit: who is told that it has its turn
	gone byte // and who that it was removed
}

// note is what a listener is told of.
type note struct {
	what what
	seq  byte
}

type what byte

const (
	nothing what = iota
	yourTurn
	youAreGone
	somethingLost
)

type phase byte

const (
	away phase = iota
	joining
	waiting
	holding
	leaving
	lost // its own deadline has passed
	done
)

func (p phase) String() string {
	return [...]string{"away", "joining", "waiting", "holding", "leaving", "lost", "done"}[p]
}

// process is what a process knows and does.
type process struct {
	phase   phase
	knows   bool
	fresh   bool // what it knows is no older than what it wants
	line    line // what it knows
	doubted bool
	doubt   byte // the version that a swap whose outcome is open was to replace
	request swap
	sentAs  phase // what it wanted then
	token   byte  // of its node
	seen    byte  // the seq of the line in which it saw itself
	turn    byte  // the seq at which it was told of its turn
	gone    byte
	look    bool // it was told to look again
	notes   [4]note
	pending byte
}

// learn takes in what stands in the register. If that is not what a swap in doubt was to replace, that swap comes too late.
func (p *process) learn(l line) {
	p.knows, p.fresh, p.line = true, true, l
	if p.doubted && p.doubt != l.version {
		p.doubted, p.doubt = false, 0
	}
}

func (p *process) active() bool { return p.phase >= joining && p.phase <= leaving }

// state is everything. It is comparable, so that it can be looked up.
type state struct {
	line       line
	epoch      byte
	versions   byte       // how many were given
	greatest   byte       // of all tokens
	ended      byte       // bit: whose session was ended
	removed    [most]byte // the token of the node of each that an operator has removed
	nLost      byte
	nRemoved   byte
	nDeleted   byte
	late       [2]swap // nobody waits for their answers any more
	p          [most]process
	contradict byte // 1: a token has come again
}

const perEpoch = 16 // tokens

func bit(i int) byte { return 1 << i }

// renumber gives the versions that still matter the numbers from 1 on, so that the same situation is always the same state.
func (s *state) renumber() {
	var numbers [256]byte
	given := byte(0)
	number := func(v *byte) {
		if *v != 0 && numbers[*v] == 0 {
			given++
			numbers[*v] = given
		}
		*v = numbers[*v]
	}
	number(&s.line.version)
	for i := range s.p {
		p := &s.p[i]
		number(&p.line.version)
		number(&p.request.old)
		number(&p.request.next.version)
		number(&p.doubt)
	}
	for k := range s.late {
		number(&s.late[k].old)
		number(&s.late[k].next.version)
	}
	s.versions = given
}
