package storetest

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// What is told by somebody who stands in no line is no more than a hint, whatever it says.
var strangers = []scenario{
	{name: "is no turn", run: strangersTurn},
	{name: "ends no hold and no session", run: strangersEnd},
	{name: "in a flood, hides no news", alone: true, run: strangersFlood},
	{name: "a register that somebody has spoilt hides no other", run: strangersSpoil},
}

// pair is a holder and one who waits behind it, each with a store of its own, and a stranger who tells them things.
type pair struct {
	*scene
	line           string
	ahead, behind  driver.Place
	holder, waiter driver.Session
	stranger       register.Store
	seq            atomic.Uint64
}

func (s *scene) pair() *pair {
	s.Helper()
	s.needsToTell()
	p := &pair{scene: s, line: fmt.Sprintf("strangers %d", scenes.Add(1)), stranger: s.open()}
	if _, trusted := p.stranger.(interface{ OnlySwapsTell() }); trusted {
		s.Skip("there are no strangers within a process")
	}
	p.seq.Store(1 << 40)
	p.ahead, p.holder = p.join()
	p.behind, p.waiter = p.join()
	return p
}

func (p *pair) join() (driver.Place, driver.Session) {
	p.Helper()
	// A holder asks for a second whether a hint is true, so a busy machine ends no hold here.
	d := register.New(p.open(), register.WithTTL(max(p.sys.TTL, 8*time.Second)))
	p.Cleanup(func() { closeDriver(d) })
	var session driver.Session
	var place driver.Place
	p.again("open a session", func(ctx context.Context) (err error) {
		session, err = d.Open(ctx)
		return err
	})
	p.again("join", func(ctx context.Context) (err error) {
		place, _, err = session.Join(ctx, driver.Entry{Line: p.line, Kind: "lock"})
		return err
	})
	return place, session
}

// whose returns the session of a place, and which of its nodes it is.
func whose(place driver.Place) (session []byte, n uint64) {
	id, rest, _ := strings.Cut(place.Node().ID, "-")
	session, _ = hex.DecodeString(id)
	fmt.Sscanf(rest, "%d.", &n)
	return session, n
}

// forge returns notes that say something to a place: bare, as from each of the two in line with a proof made up, and with a
// true proof by a key that does not stand there.
func (p *pair) forge(to driver.Place, what byte) (notes [][]byte) {
	p.Helper()
	const proof, key = 16, 32
	id, n := whose(to)
	own, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		p.Fatal(err)
	}
	for _, from := range [][]byte{make([]byte, key), p.keyOf(p.ahead), p.keyOf(p.behind), own.PublicKey().Bytes()} {
		note := append(bytes.Repeat([]byte{7}, proof), from...)
		note = append(binary.AppendUvarint(note, uint64(len(p.line))), p.line...)
		note = binary.AppendUvarint(note, p.seq.Add(1))
		notes = append(notes, binary.AppendUvarint(append(note, what), n))
	}
	theirs, err := ecdh.X25519().NewPublicKey(p.keyOf(to))
	if err != nil {
		p.Fatal(err)
	}
	shared, err := own.ECDH(theirs)
	if err != nil {
		p.Fatal(err)
	}
	last := notes[len(notes)-1]
	sum := hmac.New(sha256.New, shared)
	sum.Write(id)
	sum.Write(last[proof:])
	copy(last[:proof], sum.Sum(nil))
	return notes
}

// keyOf returns the key that stands in the line with a place's session.
func (p *pair) keyOf(place driver.Place) []byte {
	p.Helper()
	id, _ := whose(place)
	_, key, ok := bytes.Cut(p.read(p.stranger, linePrefix+p.line).Value, id)
	if !ok || len(key) < 32 {
		p.Fatal("a session does not stand in its line")
	}
	return key[:32]
}

// tell tells a session something, by a swap of the stranger's own.
func (p *pair) tell(to driver.Place, texts ...[]byte) {
	p.Helper()
	if err := p.told(to, texts); err != nil {
		p.Fatalf("tell: %v", err)
	}
}

func (p *pair) told(to driver.Place, texts [][]byte) error {
	ctx, cancel := p.while()
	defer cancel()
	id, _, _ := strings.Cut(to.Node().ID, "-")
	if p.sys.Tell != nil {
		for _, text := range texts {
			if err := p.sys.Tell(p, sessionPrefix+id, text); err != nil {
				return err
			}
		}
		return nil
	}
	it, err := p.stranger.Read(ctx, p.key("own"))
	for _, text := range texts {
		if err == nil {
			it, err = p.stranger.Swap(ctx, register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: []byte("mine"),
				Notes: []register.Note{{Topic: sessionPrefix + id, Text: text}}})
		}
	}
	return err
}

func strangersTurn(s *scene) {
	p := s.pair()
	entered := make(chan error, 1)
	go func() {
		_, err := p.behind.Await(p.ctx, []driver.Node{p.ahead.Node()})
		entered <- err
	}()
	for range 5 {
		p.tell(p.behind, p.forge(p.behind, 'T')...)
		p.tell(p.behind, p.forge(p.behind, 'L')...)
		p.tell(p.behind, nil, []byte("T"), bytes.Repeat([]byte{255}, 100))
	}
	select {
	case err := <-entered:
		p.Fatalf("one waiter is let in beside the holder, or gives up: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	p.leaves()
	p.entersSoon(entered)
}

func (p *pair) leaves() {
	p.Helper()
	ctx, cancel := p.while()
	defer cancel()
	if err := p.ahead.Leave(ctx, true); err != nil {
		p.Fatalf("Leave: %v", err)
	}
}

func (p *pair) entersSoon(entered <-chan error) {
	p.Helper()
	select {
	case err := <-entered:
		if err != nil {
			p.Errorf("Await: %v", err)
		}
	case <-time.After(soon):
		p.Errorf("not told of its turn within %v", soon)
	}
}

func strangersEnd(s *scene) {
	p := s.pair()
	ctx, cancel := context.WithCancel(p.ctx)
	over := make(chan error, 1)
	go func() { over <- p.ahead.Watch(ctx) }()
	for range 5 {
		p.tell(p.ahead, p.forge(p.ahead, 'R')...)
		p.tell(p.ahead, p.forge(p.ahead, 'X')...)
	}
	select {
	case err := <-over:
		p.Fatalf("a hold has ended: %v", err)
	case <-p.holder.Done():
		p.Fatal("a session has ended")
	case <-time.After(200 * time.Millisecond):
	}
	cancel()
	<-over
	p.leaves()
}

func strangersFlood(s *scene) {
	p := s.pair()
	entered := make(chan error, 1)
	go func() {
		_, err := p.behind.Await(p.ctx, []driver.Node{p.ahead.Node()})
		entered <- err
	}()
	stop, stopped := make(chan struct{}), make(chan struct{})
	lies := append(p.forge(p.behind, 'T'), p.forge(p.behind, 'R')...)
	lies = append(lies, p.forge(p.behind, 'X')...)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = p.told(p.behind, lies)
			}
		}
	}()
	time.Sleep(300 * time.Millisecond)
	p.leaves()
	p.entersSoon(entered)
	over := make(chan error, 1)
	ctx, cancel := context.WithCancel(p.ctx)
	go func() { over <- p.behind.Watch(ctx) }()
	select {
	case err := <-over:
		p.Errorf("a hold has ended: %v", err)
	case <-p.waiter.Done():
		p.Error("a session has ended")
	case <-time.After(300 * time.Millisecond):
	}
	close(stop)
	<-stopped
	cancel()
}

// strangersSpoil shows that who may write to a few registers harms these alone.
func strangersSpoil(s *scene) {
	s.needs("spoil a register", s.sys.Spoil == nil)
	a, b := s.open(), s.open()
	good, spoilt := s.putMany([]register.Store{a}, 10, "good"), s.putMany([]register.Store{a}, 3, "spoilt")
	for key := range spoilt {
		s.sys.Spoil(s, key)
	}
	got := s.listed(b, s.prefix)
	for key, it := range good {
		s.same("what List showed beside what is spoilt", got[key], it)
	}
	for key, it := range spoilt {
		if shown, ok := got[key]; ok && bytes.Equal(shown.Value, it.Value) {
			s.Errorf("List shows %s, which is spoilt", brief(shown))
		}
		if shown, err := b.Read(s.ctx, key); s.ctx.Err() != nil || err == nil && bytes.Equal(shown.Value, it.Value) {
			s.Errorf("Read of what is spoilt: %s, %v", brief(shown), err)
		}
	}
}
