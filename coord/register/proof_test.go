package register

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// aDriver knows a line in which the given keys stand.
func aDriver(name string, keys ...publicKey) *Driver {
	d := New(newQuietStore())
	c, _ := d.clerk(name)
	c.known = &known{line: &line{}}
	for _, key := range keys {
		c.known.line.members = append(c.known.line.members, member{key: key})
	}
	return d
}

func TestWhoStandsInTheLineIsBelieved(t *testing.T) {
	to, other := sessionID{1}, sessionID{2}
	sender := New(newQuietStore())
	d := aDriver("a", sender.identity.public)
	note := func(from *Driver, to recipient, line string) []byte {
		return from.notes(to, line, 7, []notice{{1, yourTurn}})[0].Text
	}
	believes := func(d *Driver, id sessionID, text []byte) bool {
		n, ok := readNote(text)
		require.True(t, ok)
		return d.isProven(id, n)
	}
	mine := recipient{to, d.identity.public}
	said := note(sender, mine, "a")
	require.True(t, believes(d, to, said))
	require.False(t, believes(d, other, said), "it was for another session")
	require.False(t, believes(aDriver("b", sender.identity.public), to, said), "of another driver, and another line")
	require.False(t, believes(d, to, note(sender, mine, "b")), "nothing is known of that line")
	require.False(t, believes(d, to, note(New(newQuietStore()), mine, "a")), "its sender does not stand in the line")
	require.False(t, believes(d, to, note(sender, recipient{id: to}, "a")), "it has no proof")
	require.False(t, believes(d, to, note(d, mine, "a")), "nobody tells himself anything by a note")
	for i := range said {
		changed := bytes.Clone(said)
		changed[i] ^= 1
		if n, ok := readNote(changed); ok {
			require.False(t, d.isProven(to, n), "byte %d was changed", i)
		}
	}
	// What the two may say to each other, neither can be told in the other's name.
	sees := aDriver("a", d.identity.public)
	sees.identity = sender.identity
	back := bytes.Clone(said)
	copy(back[proofSize:], d.identity.public[:])
	require.False(t, believes(sees, to, back))
}

func TestManyWhoTellCostNoMemory(t *testing.T) {
	d := New(newQuietStore())
	for range mostRemembered + 100 {
		d.identity.prove(newIdentity().public, sessionID{}, nil)
	}
	require.LessOrEqual(t, len(d.identity.pairs), mostRemembered)
	require.Nil(t, d.identity.prove(publicKey{}, sessionID{}, nil), "with this key nothing is secret")
}

// A swap that is never applied may have been told of all the same, to few: see draft.isCertain.
func TestOnlyWhatIsTrueWithoutTheSwapIsProven(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(d *draft)
		proven bool
	}{
		{"left", func(d *draft) { d.remove(1, left, func(n node) bool { return n.n == 1 }) }, true},
		{"died", func(d *draft) { d.remove(1, died, func(n node) bool { return n.n == 1 }) }, true},
		{"removed", func(d *draft) { d.remove(1, removed, func(n node) bool { return n.n == 1 }) }, false},
		{"amended", func(d *draft) {
			n, _ := d.find(sessionID{1}, 1)
			d.amend(n, rules.Reader, nil, 0)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := newDraft(nil)
			before.next = firstToken(1)
			before.join(sessionID{1}, publicKey{1}, 1, rules.Writer, driver.Owner{}, nil, 0)
			before.join(sessionID{2}, publicKey{2}, 2, rules.Reader, driver.Owner{}, nil, 0)
			was := before.line
			d := newDraft(&was)
			c.change(d)
			heard := false
			for to := range d.news() {
				if to.id == (sessionID{2}) {
					heard = true
					require.Equal(t, c.proven, to.key == publicKey{2})
				}
			}
			require.True(t, heard, "the one behind is told")
		})
	}
}

func FuzzReadNote(f *testing.F) {
	d := New(newQuietStore())
	f.Add([]byte(nil))
	f.Add(bytes.Repeat([]byte{255}, 100))
	f.Add(d.notes(recipient{id: sessionID{1}, key: d.identity.public}, "line", 7, []notice{{1, yourTurn}, {1 << 63, 0}})[0].Text)
	f.Add(append(make([]byte, noteHead), 255, 255, 255, 255, 15))
	f.Add(append(make([]byte, noteHead), 0, 7, allOver, 0))
	s := &session{d: aDriver("line", d.identity.public), id: sessionID{1}, life: driverkit.NewLife(f.Context())}
	s.life.End(errLeftOpen) // so it asks nobody
	f.Fuzz(func(t *testing.T, text []byte) {
		n, ok := readNote(text)
		if ok && len(n.all) > len(text) {
			t.Fatalf("%d notices in %d bytes", len(n.all), len(text))
		}
		if text != nil {
			s.hear(text) // of a session without places
		}
	})
}

func TestARemovalIsLookedIntoBeforeATurnIsTaken(t *testing.T) {
	p := &place{bell: driverkit.NewBell(), hints: driverkit.NewBell()}
	p.hint(5, youAreGone)
	p.heed(6, yourTurn)
	turn, stale, removed := p.told()
	require.False(t, turn, "it may have been removed before")
	require.Len(t, p.hints, 1, "so it looks, and no sooner than after any other hint")
	require.False(t, stale)
	require.False(t, removed, "anybody may have said so")
}

// Who may write to a line can harm that line, and nothing else.
func TestWhoStandsInALineCannotEndASession(t *testing.T) {
	sender := New(newQuietStore())
	d := aDriver("a", sender.identity.public)
	d.store = noticing{silent{}, d}
	s := &session{d: d, id: sessionID{1}, life: driverkit.NewLife(t.Context())}
	s.hear(sender.notes(recipient{s.id, d.identity.public}, "a", 7, []notice{{1, allOver}})[0].Text)
	time.Sleep(d.unanswered() / 10)
	require.False(t, s.life.Over())
	s.life.End(errLeftOpen)
	require.NoError(t, s.life.Rest(t.Context()))
}

// silent answers when it has to.
type silent struct{ Store }

func (silent) Read(ctx context.Context, _ string) (Item, error) {
	<-ctx.Done()
	return Item{}, ctx.Err()
}

// A holder hears that its node was removed, and cannot ask. Now and then something makes it look once more.
func TestWhoIsInDoubtStopsInTimeHoweverOftenItLooks(t *testing.T) {
	stopsInDoubt(t, func(d *Driver, p *place) {
		for began := time.Now(); !p.s.life.Over() && time.Since(began) < 10*d.unanswered(); {
			time.Sleep(d.unanswered() * 2 / 3)
			p.doubt()
		}
	})
}

// Or, while it looks, older news comes late, and breaks the look off.
func TestWhoIsInDoubtStopsInTimeWhateverElseItHears(t *testing.T) {
	stopsInDoubt(t, func(d *Driver, p *place) {
		time.Sleep(d.unanswered() / 3)
		p.heed(3, yourTurn)
	})
}

func stopsInDoubt(t *testing.T, meanwhile func(d *Driver, p *place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := aDriver("a")
		d.store = noticing{silent{}, d}
		s := &session{d: d, id: sessionID{1}, life: driverkit.NewLife(t.Context()), stir: driverkit.NewBell()}
		p := &place{s: s, bell: driverkit.NewBell(), hints: driverkit.NewBell()}
		var leave func()
		p.clerk, leave = d.clerk("a")
		defer leave()
		began := time.Now()
		go meanwhile(d, p)
		p.hint(5, youAreGone)
		err, took := p.Watch(t.Context()), time.Since(began)
		s.life.End(errLeftOpen)
		d.life.End(errLeftOpen)
		time.Sleep(d.unanswered()) // until all have noticed
		require.ErrorIs(t, err, driver.ErrRemoved)
		require.LessOrEqual(t, took, d.unanswered()+2*hintEvery)
	})
}

func TestWhereThousandsWaitTheyFollowHintsLessOften(t *testing.T) {
	s := &session{d: aDriver("a"), life: driverkit.NewLife(t.Context())}
	p := &place{s: s, bell: driverkit.NewBell(), hints: driverkit.NewBell()}
	for waiting, calm := range map[int64]time.Duration{1: hintEvery, 500: hintEvery, 10_000: time.Second} {
		s.waiting.Store(waiting)
		p.hint(1, lookAgain)
		p.calm = time.Time{}
		before := time.Now()
		require.False(t, p.rest(t.Context(), time.Minute))
		require.GreaterOrEqual(t, p.calm.Sub(before), calm)
		require.Less(t, p.calm.Sub(before), calm+10*time.Second)
		<-p.bell
	}
}

func TestANoteThatMakesNoSenseHidesNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		d := New(newQuietStore(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		s := &session{d: d}
		for range 60 * 60 {
			s.hear([]byte("x"))
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, strings.Count(log.String(), "no sense"), 6)
		require.Positive(t, strings.Count(log.String(), "no sense"))
		s.hear([]byte("x"))
		d.saw(errNoLine)
		require.Contains(t, log.String(), errNoLine.Error())
		d.life.End(errClosed)
	})
}
