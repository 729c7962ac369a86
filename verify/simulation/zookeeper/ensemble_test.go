package zookeeper

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/recipes/mutex"
)

// talk is a client that speaks the protocol itself.
type talk struct {
	*testing.T
	*rawClient
	s *side
	c *comparison
}

func speak(t *testing.T, e *Ensemble, member int, link string, timeout int32, id int64, password []byte, seen int64) (*talk, string) {
	conn, err := e.Dial(t.Context(), link, e.Members()[member].Address())
	if err != nil {
		return nil, err.Error()
	}
	cl := &rawClient{Conn: conn}
	var out encoder
	out.int(0)
	out.long(seen)
	out.int(timeout)
	out.long(id)
	out.bytes(append(password, make([]byte, 16-len(password))...))
	if _, err := conn.Write(out.frame()); err != nil {
		t.Fatal(err)
	}
	b, err := readFrame(conn)
	if err != nil {
		return nil, err.Error()
	}
	in := &decoder{b: b}
	in.int()
	granted := in.int()
	cl.id, cl.password = in.long(), in.bytes()
	if cl.id == 0 {
		return nil, "expired"
	}
	c := &comparison{T: t, members: 3, rand: rand.New(rand.NewPCG(1, 1))}
	return &talk{t, cl, &side{sessions: map[int64]int{0: 0}}, c}, time.Duration(granted * 1e6).String()
}

func (k *talk) asks(op int32, body []byte) string {
	said := k.s.ask(k.c, k.rawClient, asked{op, body})
	return said[len(said)-1]
}

func inBubble(t *testing.T, cfg Config, f func(t *testing.T, e *Ensemble)) {
	synctest.Test(t, func(t *testing.T) {
		cfg.Network = atOnce{}
		e := New(cfg)
		defer e.Close()
		f(t, e)
	})
}

const tick = 200 * time.Millisecond

func three(syncLimit int) Config {
	return Config{Members: 3, Tick: tick, SyncLimit: syncLimit, Election: tick}
}

// A session is vouched for by what its member tells the leader when asked, and not by a write.
func TestAMemberThatIsCutOffGoesOnAnswering(t *testing.T) {
	inBubble(t, three(10), func(t *testing.T, e *Ensemble) {
		k, granted := speak(t, e, 1, "a", 1000, 0, nil, 0)
		if granted != "1s" {
			t.Fatal(granted)
		}
		k.asks(opCreate, create("/a", nil, openACL, flagEphemeral))
		e.Members()[1].Cut(true, true)
		for range 8 {
			time.Sleep(tick)
			if said := k.asks(opExists, pathAndWatch("/a", false)); said == "hung up" {
				t.Fatal("it has given up too soon")
			}
		}
		if d, _ := e.Look("/"); len(d.Children) != 1 { // but for /zookeeper
			t.Errorf("the others have not ended the session: %v", d.Children)
		}
		time.Sleep(4 * tick)
		if said := k.asks(opExists, pathAndWatch("/a", false)); said != "hung up" {
			t.Error("it has not given up", said)
		}
		e.Members()[1].Heal()
		time.Sleep(3 * tick)
		if _, said := speak(t, e, 1, "a", 1000, k.id, k.password, 0); said != "expired" {
			t.Error("the session lives:", said)
		}
	})
}

func TestASessionEndsInATick(t *testing.T) {
	inBubble(t, three(10), func(t *testing.T, e *Ensemble) {
		k, _ := speak(t, e, 0, "a", 1000, 0, nil, 0)
		k.asks(opCreate, create("/a", nil, openACL, flagEphemeral))
		began := time.Now()
		for stands := true; stands; {
			time.Sleep(time.Millisecond)
			d, _ := e.Look("/")
			stands = len(d.Children) > 1
		}
		if took := time.Since(began); took < time.Second || took > time.Second+2*tick {
			t.Error(took)
		}
	})
}

func TestAnotherMemberMayGrantLess(t *testing.T) {
	inBubble(t, three(10), func(t *testing.T, e *Ensemble) {
		k, _ := speak(t, e, 1, "a", 2000, 0, nil, 0)
		e.Members()[2].Grant(800 * time.Millisecond)
		again, granted := speak(t, e, 2, "a", 2000, k.id, k.password, 0)
		if granted != "800ms" {
			t.Fatal(granted)
		}
		if left := time.Until(e.Expires(e.sessions[again.id])); left > time.Second {
			t.Error("it lasts for", left)
		}
		if said := k.asks(opSetData, setData("/zookeeper", nil, -1)); said != "hung up" {
			t.Error("the member before still serves it:", said)
		}
	})
}

func TestAMemberThatLagsRefusesWhoHasSeenMore(t *testing.T) {
	inBubble(t, three(10), func(t *testing.T, e *Ensemble) {
		k, _ := speak(t, e, 2, "a", 2000, 0, nil, 0)
		k.asks(opCreate, create("/a", nil, openACL, 0))
		if _, said := speak(t, e, 1, "a", 2000, k.id, k.password, e.latest.zxid); said != io.EOF.Error() {
			t.Error(said)
		}
		e.Members()[1].Follow(1 << 30)
		if again, said := speak(t, e, 1, "a", 2000, k.id, k.password, e.latest.zxid); again == nil {
			t.Error(said)
		}
	})
}

func TestWhatWasSentToAMemberThatIsCutOffArrivesLater(t *testing.T) {
	inBubble(t, three(10), func(t *testing.T, e *Ensemble) {
		k, _ := speak(t, e, 1, "a", 2000, 0, nil, 0)
		e.Members()[1].Cut(true, true)
		said := make(chan string)
		go func() { said <- k.asks(opCreate, create("/a", nil, openACL, 0)) }()
		time.Sleep(3 * tick)
		if d, _ := e.Look("/"); len(d.Children) != 1 {
			t.Error("it has arrived")
		}
		e.Members()[1].Heal()
		if s := <-said; s == "hung up" {
			t.Error(s)
		}
		if d, _ := e.Look("/"); len(d.Children) != 2 {
			t.Error("it has been lost")
		}
	})
}

func TestALeaderFallsAndABackupIsPutBack(t *testing.T) {
	inBubble(t, three(10), func(t *testing.T, e *Ensemble) {
		a := connect(t, e, "a")
		defer a.Close()
		h, err := mutex.New(a, "line").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first := e.Leader()
		first.Kill()
		time.Sleep(4 * tick)
		if l := e.Leader(); l == nil || l == first || h.Err() != nil {
			t.Fatal("nobody leads, or the hold is lost", l, h.Err())
		}
		first.Start()
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
		e.Restore(1, 0) // the release
		b := connect(t, e, "b")
		defer b.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h, err = mutex.New(b, "line").Lock(ctx)
		if err != nil {
			t.Fatal("the line is blocked:", err)
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

// Whatever a client sends, the members go on.
func FuzzReceive(f *testing.F) {
	var e encoder
	e.int(1)
	e.int(opCreate)
	e.b = append(e.b, create("/a", nil, openACL, 3)...)
	f.Add(e.frame())
	f.Add([]byte{0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, opMulti})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, frame []byte) {
		inBubble(t, Config{}, func(t *testing.T, e *Ensemble) {
			k, _ := speak(t, e, 0, "a", 4000, 0, nil, 0)
			if _, err := k.Write(frame); err != nil {
				t.Fatal(err)
			}
			k.Close()
			if other, said := speak(t, e, 0, "b", 4000, 0, nil, 0); other == nil {
				t.Fatal(said)
			}
		})
	})
}
