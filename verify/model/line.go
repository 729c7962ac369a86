package model

import "github.com/turnwise/turnwise/coord/driver/rules"

// Contenders are numbered in the order of the line; a set of them is a mask.
const most = 4

// Config is one family of runs.
type Config struct {
	Kinds   []string                 // what each contender asks for
	WaitFor map[string]rules.WaitFor // instead of the rule that ships, by kind

	GiveUp, Expire, Remove, Reconnect, Downgrade, Amend bool

	// What is planted.
	EveryHolderMarks, DowngradeMarks, AnyChangeIsMark, OwnNodeLast, ExpireFirst, StaleJoin, GrantedSilently, BehindOverlooked bool
}

// op is what happened at the service, in order. Contenders hear of it through streams that lag.
type op byte

const (
	joins op = iota
	leaves
	leavesMarked // changed and gone, in one step
	changes      // writes to its own node
	downgrades   // takes on another kind in its place; for those who watch, it is another node
	isRemoved
	kinds // how many kinds there are
)

func (o op) of(i int) byte   { return byte(o)<<3 | byte(i) }
func split(b byte) (op, int) { return op(b >> 3), int(b & 7) }
func bit(i int) byte         { return 1 << i }

// line is who stands in line at some moment.
type line struct{ standing, downgraded byte }

func (l *line) apply(b byte) {
	o, i := split(b)
	switch o {
	case joins:
		l.standing |= bit(i)
	case leaves, leavesMarked, isRemoved:
		l.standing &^= bit(i)
	case downgrades:
		l.downgraded |= bit(i)
	}
}

// phase is where a contender is.
type phase byte

const (
	away    phase = iota
	looking       // it is going to list the line
	arming        // it is going to set the watch
	waiting
	holding
	lost // its own deadline has passed, the service has not expired it yet
	told // it knows that its node is gone
	done
)

func (p phase) String() string {
	return [...]string{"away", "looking", "arming", "waiting", "holding", "lost", "told", "done"}[p]
}

// contender is what a contender knows and does.
type contender struct {
	phase   phase
	at      byte // how much of what happened has reached it through its stream
	wait    byte // whom it waits for
	watch   byte // on whom it has set a watch
	seenAs  byte // which of wait had been downgraded when it looked
	alone   bool // nobody at all was ahead when it was granted
	waited  bool // its first look did not let it in
	tell    bool // it must say that it was granted
	own     bool // the watch on the own node is set
	cut     bool // it has lost its connection once
	heard   [6]byte
	pending byte // how many of heard
}

type news byte

const (
	changed news = iota
	gone
)

func (c *contender) hear(n news, i int) {
	c.heard[c.pending] = byte(n)<<3 | byte(i)
	c.pending++
}

func (c *contender) forget(k byte) {
	copy(c.heard[k:], c.heard[k+1:])
	c.pending--
	c.heard[c.pending] = 0
}

func (c *contender) active() bool { return c.phase >= looking && c.phase <= holding }

// state is everything. It is comparable, so that it can be looked up.
type state struct {
	base     line
	ops      [12]byte
	happened byte // how many of ops
	joined   byte
	removed  byte
	amended  byte
	c        [most]contender
}

func (s *state) line(at byte) line {
	l := s.base
	for _, o := range s.ops[:at] {
		l.apply(o)
	}
	return l
}

func (s *state) now() line { return s.line(s.happened) }

func (s *state) happen(o op, i int) {
	s.ops[s.happened] = o.of(i)
	s.happened++
}

// forgetPast drops what everybody has heard and what nobody will use, so that the same situation is always the same
// state.
func (s *state) forgetPast() {
	least := s.happened
	for i := range s.c {
		c := &s.c[i]
		if !c.active() {
			*c = contender{phase: c.phase}
			continue
		}
		least = min(least, c.at)
		if c.phase == holding {
			c.wait, c.watch, c.seenAs = 0, 0, 0
			for k := byte(0); k < c.pending; {
				if c.heard[k] == byte(gone)<<3|byte(i) {
					k++
				} else {
					c.forget(k)
				}
			}
		}
	}
	for _, o := range s.ops[:least] {
		s.base.apply(o)
	}
	copy(s.ops[:], s.ops[least:s.happened])
	for k := s.happened - least; k < s.happened; k++ {
		s.ops[k] = 0
	}
	s.happened -= least
	for i := range s.c {
		if s.c[i].active() {
			s.c[i].at -= least
		}
	}
}
