package register

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

// plainNode is a node of a line as one would write it without regard to the bytes.
type plainNode struct {
	token uint64
	id    nodeID
	kind  string
	owner driver.Owner
	data  []byte
	aside uint64
}

// A line that is changed as bytes stays the same as one that is made of structs, whatever is done to it.
func TestALineIsChangedInItsBytes(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := &line{next: firstToken(random.Uint64N(1 << 20)), seq: 7}
		var plain []plainNode
		joined := 0
		sessions := []sessionID{{1}, {2}, {3}}
		kinds := []string{"lock", "R", "W", "S2of5"}
		for step := range 120 {
			d := newDraft(l)
			for range random.IntN(4) {
				if len(plain) > 0 && random.IntN(2) == 0 {
					at := random.IntN(len(plain))
					if random.IntN(3) == 0 {
						at = 0
					}
					p := plain[at]
					switch random.IntN(3) {
					case 0: // one leaves
						if !d.remove(1, left, func(n node) bool { return d.id(n) == p.id }) {
							t.Fatalf("seed %d, step %d: %v is not there", seed, step, p.id)
						}
						plain = slices.Delete(plain, at, at+1)
					case 1: // a session ends
						dead := p.id.session
						d.remove(math.MaxInt, died, func(n node) bool { return d.members[n.member].id == dead })
						plain = slices.DeleteFunc(plain, func(p plainNode) bool { return p.id.session == dead })
					case 2:
						me, _ := d.find(p.id.session, p.id.n)
						kind, data := kinds[random.IntN(len(kinds))], someData(random)
						d.amend(me, kind, data, 0)
						plain[at].kind, plain[at].data, plain[at].aside = kind, data, 0
						plain[at].id.rev++
					}
					continue
				}
				joined += 1 + random.IntN(300)
				p := plainNode{token: d.next, id: nodeID{session: sessions[random.IntN(3)], n: uint64(joined)}, kind: kinds[random.IntN(len(kinds))], data: someData(random)}
				p.owner = driver.Owner{Host: fmt.Sprint("host ", random.IntN(3)), PID: random.IntN(9), Label: "x", Since: time.UnixMilli(random.Int64N(1 << 41)).UTC()}
				p.aside = uint64(max(0, random.IntN(9)-7))
				d.join(p.id.session, publicKey(bytes.Repeat(p.id.session[:1], keySize)), p.id.n, p.kind, p.owner, p.data, p.aside)
				plain = append(plain, p)
			}
			d.seq++
			before := l.encode()
			again, err := parseLine(d.encode())
			if err == nil {
				err = again.check()
			}
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if l.seq != d.seq-1 || !bytes.Equal(before, l.encode()) {
				t.Fatalf("seed %d, step %d: the line itself was changed", seed, step)
			}
			l = again
			i, owners := 0, make(map[int]*driver.Owner)
			for n := range l.nodes() {
				if i == len(plain) {
					t.Fatalf("seed %d, step %d: there is one too many", seed, step)
				}
				want, got := plain[i], l.full("x", n, owners)
				if n.token != want.token || l.id(n) != want.id || got.Kind != want.kind || got.Owner != want.owner || !bytes.Equal(got.Data, want.data) || n.aside != want.aside {
					t.Fatalf("seed %d, step %d: node %d is %+v, want %+v", seed, step, i, got, want)
				}
				i++
			}
			if i != len(plain) || l.count != i {
				t.Fatalf("seed %d, step %d: %d nodes, %d are there", seed, step, len(plain), i)
			}
		}
	}
}

func someData(random *rand.Rand) []byte {
	if random.IntN(3) > 0 {
		return nil
	}
	return bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(300))
}

func FuzzLine(f *testing.F) {
	d := newDraft(nil)
	d.next = 1
	d.join(sessionID{1}, publicKey{1}, 1, "lock", driver.Owner{Host: "h", Since: time.UnixMilli(1)}, []byte("data"), 0)
	f.Add(d.encode())
	for _, kind := range []string{"", "unknown", "\x00"} {
		l := d.line
		l.kinds = []string{kind}
		f.Add(l.encode())
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		l, err := parseLine(value)
		if err != nil || l.check() != nil {
			return
		}
		owners := make(map[int]*driver.Owner)
		for n := range l.nodes() {
			l.full("x", n, owners)
		}
		l.ahead("x", math.MaxUint64, driver.Sight{Nearest: driver.All})
		d := newDraft(l)
		d.remove(1, left, func(n node) bool { return true })
		if len(d.entries) > 0 {
			if again, err := parseLine(d.encode()); err != nil || again.check() != nil {
				t.Fatalf("%x became %x", value, d.encode())
			}
		}
		d.news()
	})
}

func TestALineThatNamesNobodyIsNone(t *testing.T) {
	l := line{next: 2, count: 1, first: 1, last: 1, members: []member{{}}, kinds: []string{"lock"}}
	for _, member := range []int{1, -1} {
		l.entries = appendEntry(nil, node{token: 1, member: member}, 0)
		got, err := parseLine(l.encode())
		if err == nil {
			err = got.check()
		}
		if err == nil {
			for n := range got.nodes() {
				t.Errorf("it is of member %d, of %d: %v", member, len(l.members), got.id(n))
			}
		}
	}
}

// A line that everybody has left keeps its next token, and nothing of those who stood there.
func TestALineThatEverybodyHasLeftIsAsShortAsANewOne(t *testing.T) {
	was := &line{next: 7 << coord.TurnBits}
	d := newDraft(was)
	me := d.join(sessionID{1}, publicKey{1}, 1, "lock", driver.Owner{Label: "somebody"}, nil, 0)
	id := d.id(me)
	d.remove(1, left, func(n node) bool { return d.id(n) == id })
	if got, new := len(d.encode()), len((&line{next: d.next, seq: d.seq}).encode()); got != new {
		t.Errorf("it takes %d bytes, and a new one %d", got, new)
	}
}

// The next token is greater than all that were given: a line that says otherwise was not written by us.
func TestALineWhoseNextTokenWasGivenIsNone(t *testing.T) {
	d := newDraft(&line{next: 7 << coord.TurnBits})
	d.join(sessionID{1}, publicKey{1}, 1, "lock", driver.Owner{}, nil, 0)
	if err := d.check(); err != nil {
		t.Fatal(err)
	}
	d.next = d.last
	if d.check() == nil {
		t.Error("its next token is that of its last node")
	}
}
