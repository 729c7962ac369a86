package register

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// notice is what a swap tells one node.
type notice struct {
	n    uint64 // which of its session's nodes
	what byte
}

const (
	yourTurn   = 'T' // nobody ahead stands in its way
	lookAgain  = 'L' // one that it waits for has left, or was amended
	youAreGone = 'R' // somebody has removed it
	allOver    = 'X' // its session was ended

	showYourself = 'C' // its session rests, and was called
)

// recipient is a session that is told something.
type recipient struct {
	id  sessionID
	key publicKey // of its driver; zero: nothing is proven to it
}

func (m member) recipient() recipient { return recipient{m.id, m.key} }

// isCertain reports whether what a change tells is true even if the swap is never applied: a quorum may tell of such a swap,
// to few, and somebody could repeat it to all. Who leaves has stopped before, and who has died is dead. But who is removed by
// somebody else, or amended, may stand there yet as before.
func (d *draft) isCertain() bool {
	return !slices.ContainsFunc(d.gone, func(g loss) bool { return g.why == removed || g.why == amended })
}

// news returns what a change of a line has to tell, by session. The client that swaps knows the whole line, and so whose
// turn it is: waiters need not look. Only those are told who waited, by the rules of their kinds, for one that has gone. Of
// a kind that is no recipe's it is known only that it has its turn when nobody is ahead. Its own rule may wait for anybody, so
// it is told whenever somebody ahead has gone, but no more than mostOthers of them at a time: the rest look without being
// told.
func (d *draft) news() map[recipient][]notice {
	if len(d.gone) == 0 || d.was == nil {
		return nil
	}
	told := make(map[recipient][]notice)
	certain := d.isCertain()
	tell := func(to recipient, n node, what byte) {
		if !certain {
			to.key = publicKey{}
		}
		told[to] = append(told[to], notice{n.n, what})
	}
	slices.SortStableFunc(d.gone, func(a, b loss) int { return cmp.Compare(a.token, b.token) })
	for i := len(d.gone) - 1; i > 0; i-- {
		if d.gone[i-1].token == d.gone[i].token { // what was amended, and then left, has left
			d.gone = slices.Delete(d.gone, i-1, i)
		}
	}
	for _, g := range d.gone {
		if g.why == removed {
			tell(recipient{id: g.session}, g.node, youAreGone)
		}
	}
	q := newQueue(d.was, d.gone)
	for n := range d.was.nodes() {
		is := q.next(n)
		switch {
		case !is.woken:
		case is.free:
			tell(d.was.members[n.member].recipient(), n, yourTurn)
		default:
			tell(d.was.members[n.member].recipient(), n, lookAgain)
		}
		if is.last {
			break
		}
	}
	return told
}

// mostOthers is how many nodes of kinds that are no recipe's are told of a change far ahead of them.
const mostOthers = 64

// queue goes through a line as it was, and finds those who waited for one that has gone.
type queue struct {
	was     *line
	gone    []loss // those not passed yet, in order
	permits bool   // there are semaphores' nodes in the line
	turns   []bool // if so, whose turn it was
	unknown bool   // there are nodes of kinds that are no recipe's

	passed    []driver.Node // and all nodes passed; those that have gone have an ID
	lastGone  bool          // whether the nearest has gone
	otherGone bool          // whether the nearest that was no reader has gone
	anyGone   bool          // whether any has gone
	told      int           // how many of those that are no recipe's are told since
	standing  int           // how many stand
	others    int           // how many of these are no readers
}

// position is what a queue says of a node.
type position struct {
	woken bool // it waited for one that has gone
	free  bool // nobody ahead stands in its way now
	last  bool // nobody behind is woken
}

func newQueue(was *line, gone []loss) *queue {
	q := &queue{was: was, gone: gone, permits: slices.ContainsFunc(was.kinds, rules.IsPermits)}
	q.unknown = slices.ContainsFunc(was.kinds, func(kind string) bool { return !rules.IsKnown(kind) })
	if q.permits {
		all := make([]driver.Node, 0, was.count)
		for n := range was.nodes() {
			all = append(all, driver.Node{Kind: was.kinds[n.kind]})
		}
		q.turns = rules.Turns(all)
	}
	return q
}

func (q *queue) next(n node) (is position) {
	kind := q.was.kinds[n.kind]
	reader, permits := kind == rules.Reader, rules.IsPermits(kind)
	var lost *loss
	if len(q.gone) > 0 && q.gone[0].token == n.token {
		lost, q.gone = &q.gone[0], q.gone[1:]
	} else {
		switch {
		case reader:
			is.woken, is.free = q.otherGone, q.others == 0
		case permits:
			is.woken, is.free = q.waitedForGone(kind), q.standing == 0
		default:
			is.woken, is.free = q.lastGone || q.tells(kind), q.standing == 0
		}
	}
	q.lastGone = lost != nil
	q.anyGone = q.anyGone || lost != nil
	if !reader {
		q.otherGone = lost != nil
	}
	if q.permits {
		passed := driver.Node{Kind: kind, Token: driver.Token(n.token)}
		if lost != nil {
			passed.ID = "gone"
		}
		q.passed = append(q.passed, passed)
	}
	if stands := lost == nil || lost.why == amended; stands {
		q.standing++
		if lost != nil && lost.kind != rules.Reader || lost == nil && !reader {
			q.others++
		}
	}
	is.last = lost == nil && !reader && !permits && q.isOver()
	return is
}

// isOver reports whether nobody is told any more behind a node that tolerates nobody beside it: nobody looks past that, but perhaps
// those whose rule is not known.
func (q *queue) isOver() bool { return len(q.gone) == 0 && (!q.unknown || q.told >= mostOthers) }

// tells reports whether a node that may have waited for anybody is told that somebody has gone, and counts those.
func (q *queue) tells(kind string) bool {
	if !q.anyGone || q.told >= mostOthers || rules.IsKnown(kind) {
		return false
	}
	q.told++
	return true
}

// waitedForGone reports whether a semaphore's node waited for one that has gone. It may have waited for the nearest alone,
// even if by now it need not wait for anybody and does not know it: with many permits, it is not told before the nearest has
// its turn.
func (q *queue) waitedForGone(kind string) bool {
	if q.lastGone || q.turns[len(q.passed)] { // asking the rule about thousands that have their turn would take seconds
		return q.lastGone
	}
	return slices.ContainsFunc(rules.Weighted(driver.Node{Kind: kind}, q.passed), func(n driver.Node) bool { return n.ID != "" })
}

// noteSize is the most that a note holds.
const noteSize = 7000

// A note is a proof and its sender's key, both zero if nothing is proven, and then the line's name, its seq, and for each
// notice what it tells, and n. See proof.go.
const noteHead = proofSize + keySize

// notes puts what is told to one session into as many notes as it takes.
func (d *Driver) notes(to recipient, line string, seq uint64, all []notice) []Note {
	head := make([]byte, proofSize, noteHead+len(line)+2*binary.MaxVarintLen64)
	sender := publicKey{}
	if to.key != (publicKey{}) {
		sender = d.identity.public
	}
	head = appendBytes(append(head, sender[:]...), line)
	head = binary.AppendUvarint(head, seq)
	var notes []Note
	text := slices.Clone(head)
	add := func() {
		if to.key != (publicKey{}) {
			copy(text, d.identity.prove(to.key, to.id, text[proofSize:]))
		}
		notes = append(notes, Note{to.id.key(), text})
	}
	for _, n := range all {
		if len(text)+1+binary.MaxVarintLen64 > noteSize {
			add()
			text = slices.Clone(head)
		}
		text = append(text, n.what)
		text = binary.AppendUvarint(text, n.n)
	}
	add()
	return notes
}

// message is a note taken apart.
type message struct {
	proof  []byte
	proven []byte // what the proof is for: all that follows it
	sender publicKey
	line   string
	seq    uint64
	all    []notice
}

func readNote(text []byte) (n message, ok bool) {
	r := reader{rest: text}
	n.proof = r.take(proofSize)
	n.proven = r.rest
	copy(n.sender[:], r.take(keySize))
	n.line, n.seq = string(r.bytes()), r.number()
	for len(r.rest) > 0 {
		what := r.byte()
		n.all = append(n.all, notice{r.number(), what})
	}
	return n, !r.bad
}
