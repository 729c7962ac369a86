package kube

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func joined(t *testing.T, ttl time.Duration, opts ...Option) *coord.Client {
	t.Helper()
	return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
		return Connect(ctx, "default", append(opts, WithTTL(ttl), WithLongestTTL(ttl), WithLogger(logger(t)))...)
	})
}

func turn(t *testing.T, c *coord.Client, name string) {
	t.Helper()
	if err := storecheck.Locked(t, c, name).Release(); err != nil {
		t.Fatal(err)
	}
}

// A holder is cut off, and a backup that does not know its line is put back with raised revisions (etcdutl --bump-revision). The server is
// back before the next renewal of one who has seen newer things: all that he notices is that his watches were cut, or that his session
// has gone, which nobody may have ended.
func TestABackupThatIsPutBackLetsNobodyInBesideAHolderThatIsCutOff(t *testing.T) {
	const ttl = 4 * time.Second
	for name, older := range map[string]bool{"older than the sessions": true, "younger": false} {
		for then, how := range map[string]struct{ wait, hint, away bool }{
			"at once":                      {},
			"once its session is over":     {wait: true},
			"after a hint of a stranger":   {wait: true, hint: true},
			"who was away for its session": {wait: true, away: true},
		} {
			if !older && how.wait {
				continue
			}
			t.Run(name+", "+then, func(t *testing.T) {
				t.Parallel()
				f := newFake(t)
				first := joined(t, ttl, f.options(t)...)
				turn(t, first, "warm")
				first.Close()
				time.Sleep(2*ttl + 3*time.Second) // the mark is old
				putBack := f.keep()
				w := inFrontOf(t, f) // the way of the holder
				way, opts := proxy(t, f)
				holder := joined(t, ttl, WithServer(w.server.URL))
				other := joined(t, ttl, opts...)
				turn(t, holder, "warm")
				turn(t, other, "warm")
				if !older {
					putBack = f.keep()
				}
				h := storecheck.Locked(t, holder, "orders")
				storecheck.IsBusy(t, other, "orders")
				mine := storecheck.Locked(t, other, "mine")
				if how.hint {
					session, _, _ := strings.Cut(mine.Node().ID, "-")
					isSaidToBeOver(t, raw(t, f.options(t)), session)
				}
				time.Sleep(1500 * time.Millisecond) // all are renewed: changed since the backup
				if how.away {
					way.unavailable.Store(true)
					way.server.CloseClientConnections()
					<-mine.Context().Done()
				}
				// the holder's link is cut, and the backup put back
				w.server.CloseClientConnections()
				w.server.Listener.Close()
				putBack(1000)
				way.unavailable.Store(false)
				if how.wait {
					<-mine.Context().Done()
				} else {
					time.Sleep(100 * time.Millisecond)
				}
				h2 := storecheck.Locked(t, other, "orders")
				if h.Err() == nil && h2.Err() == nil {
					t.Errorf("two hold: tokens %v and %v", h.Token(), h2.Token())
				}
			})
		}
	}
}

// isSaidToBeOver has a stranger who may get and create tell a session that somebody has ended it.
func isSaidToBeOver(t *testing.T, stranger *Store, session string) {
	t.Helper()
	his := stranger.compose(&register.Swap{Key: "his", Next: register.NewVersion(), Value: []byte("x"),
		Notes: []register.Note{storecheck.SaidToBeOver(session)}}, stand{})
	if err := stranger.ask(within(t, 10*time.Second), request{method: http.MethodPost, body: his}, nil); err != nil {
		t.Fatal(err)
	}
}

// The same with sessions that the backup knows, and one who holds nothing just now: no request of his has failed, since the HTTP client
// makes another connection by itself.
func TestABackupThatIsPutBackWhileSomebodyIsIdleLetsHimInBesideNobody(t *testing.T) {
	const ttl = 4 * time.Second
	f := newFake(t)
	w := inFrontOf(t, f) // the way of the holder
	holder := joined(t, ttl, WithServer(w.server.URL))
	other := joined(t, ttl, f.options(t)...)
	turn(t, holder, "warm")
	turn(t, other, "warm")
	putBack := f.keep()
	h := storecheck.Locked(t, holder, "orders")
	storecheck.IsBusy(t, other, "orders")
	time.Sleep(1100 * time.Millisecond) // all are renewed: changed since the backup
	w.server.CloseClientConnections()
	w.server.Listener.Close()
	putBack(1000)
	time.Sleep(100 * time.Millisecond)
	h2 := storecheck.Locked(t, other, "orders")
	if h.Err() == nil && h2.Err() == nil {
		t.Errorf("two hold: tokens %v and %v", h.Token(), h2.Token())
	}
}

// While no watch is open nobody can tell whether the server is another one: they are refused, or each is cut at once and the next one waits a
// little. All else is answered. (Only the end of a watch was news.)
func TestABackupThatIsPutBackWhileNoWatchIsOpenLetsNobodyIn(t *testing.T) {
	const ttl = 4 * time.Second
	for _, how := range []string{"watches are refused", "watches are cut at once"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			w, o := inFrontOf(t, f), inFrontOf(t, f) // the ways of the holder and of the other
			holder := joined(t, ttl, WithServer(w.server.URL))
			other := joined(t, ttl, WithServer(o.server.URL))
			turn(t, holder, "warm")
			turn(t, other, "warm")
			if how == "watches are refused" {
				o.refused.Store(true)
			} else {
				o.brief.Store(true)
			}
			o.server.CloseClientConnections()
			storecheck.Eventually(t, "watches are asked for in vain", func() bool { return o.vain.Load() > 3 })
			putBack := f.keep()
			h := storecheck.Locked(t, holder, "orders")
			time.Sleep(ttl * 3 / 8) // all are renewed: changed since the backup
			w.server.CloseClientConnections()
			w.server.Listener.Close()
			putBack(1000)
			o.server.CloseClientConnections()
			time.Sleep(50 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
			defer cancel()
			if h2, err := mutex.New(other, "orders").Lock(ctx); err == nil && h.Err() == nil && h2.Err() == nil {
				t.Errorf("two hold: tokens %v and %v", h.Token(), h2.Token())
			}
			o.refused.Store(false)
			o.brief.Store(false)
			turn(t, other, "another")
		})
	}
}
