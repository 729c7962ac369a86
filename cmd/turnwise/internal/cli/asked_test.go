//go:build linux || darwin

package cli

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/asks"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/bubble"
)

// heard is somebody whom a hold has heard asking.
type heard struct {
	what string
	at   time.Time
}

// listen hears who asks for a hold's line, until the returned function is called.
func listen(t *testing.T, h *coord.Hold) (all *[]heard, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	all = new([]heard)
	over := make(chan error, 1)
	go func() {
		over <- hears(ctx, h, func(n coord.Node) { *all = append(*all, heard{n.Asks, time.Now()}) })
	}()
	return all, func() {
		t.Helper()
		cancel()
		require.NoError(t, <-over)
	}
}

func (h heard) String() string { return h.what }

func TestEachWhoAsksIsHeardOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		all, stop := listen(t, h)
		asking, enough := context.WithCancel(t.Context())
		ended := make(chan error, 4)
		ask := func(why string, of []byte) {
			go func() {
				_, err := s.Client().Acquire(asking, "a", rules.Lock, of, coord.RuleOf(rules.Lock), coord.Asking(why))
				ended <- err
			}()
			time.Sleep(time.Second)
		}
		ask("all", nil)
		ask("him", asks.Of([]coord.Token{h.Token()}))
		ask("another", asks.Of([]coord.Token{h.Token() + 1}))
		ask("the last", nil)
		time.Sleep(time.Minute)
		stop()
		var what []string
		for _, one := range *all {
			what = append(what, one.what)
		}
		assert.Equal(t, []string{"all", "him", "the last"}, what)
		enough()
		for range 4 {
			require.Error(t, <-ended)
		}
		require.NoError(t, h.Release())
	})
}

// Whoever may stand in a line can stand there many times.
func TestACrowdIsNotHeardAllAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h, err := semaphore.New(s.Client(), "a", 2).Acquire(t.Context(), 1)
		require.NoError(t, err)
		beside, err := semaphore.New(s.Client(), "a", 2, semaphore.Asking("it has what it wants")).Acquire(t.Context(), 1)
		require.NoError(t, err)
		asking, enough := context.WithCancel(t.Context())
		const crowd = 30
		ended := make(chan error, crowd)
		for range crowd {
			go func() { ended <- s.Client().Ask(asking, "a", "me") }()
		}
		synctest.Wait()
		all, stop := listen(t, h)
		time.Sleep(time.Minute)
		stop()
		assert.Len(t, *all, crowd)
		for i, one := range *all {
			assert.Equal(t, "me", one.what)
			if i > 0 {
				assert.GreaterOrEqual(t, one.at.Sub((*all)[i-1].at), betweenAsks)
			}
		}
		enough()
		for range crowd {
			require.Error(t, <-ended)
		}
		require.NoError(t, beside.Release())
		require.NoError(t, h.Release())
	})
}

func TestWhatIsASignalThatACommandCanHear(t *testing.T) {
	for text, want := range map[string]syscall.Signal{
		"USR1": syscall.SIGUSR1, "SIGUSR1": syscall.SIGUSR1, "sigterm": syscall.SIGTERM, "hup": syscall.SIGHUP, "2": syscall.SIGINT,
	} {
		var s askSignal
		require.NoError(t, s.Set(text), text)
		assert.Equal(t, want, s.Signal, text)
		var again askSignal
		require.NoError(t, again.Set(s.String()))
		assert.Equal(t, want, again.Signal)
	}
	for text, says := range map[string]string{
		"": "a name such as", "0": "a name such as", "-1": "a name such as", "1000": "a name such as", "FOO": "a name such as", "TREM": "did you mean TERM?",
		"SIGHUPP": "did you mean HUP?", "KILL": "write TERM", "9": "write TERM", "sigstop": "would keep the line", "TSTP": "would keep the line",
	} {
		var s askSignal
		assert.ErrorContains(t, s.Set(text), says, text)
		assert.Zero(t, s.Signal, text)
	}
}

func TestWhatOthersSayOfThemselvesIsBounded(t *testing.T) {
	assert.Equal(t, "short", brief("short"))
	assert.True(t, brief(strings.Repeat("é", 10000)) == strings.Repeat("é", mostOfOthers)+"…")
}

func TestWhatAContenderSaysBeside(t *testing.T) {
	n := coord.Node{Kind: rules.Lock, Token: 9, Asks: "the \u202edisk", Data: asks.Of([]coord.Token{7})}
	assert.Equal(t, `asks to let go: the \u202edisk`, contenderOf(n).more())
	n = coord.Node{Kind: rules.Lead, Rank: -2, Data: []byte("here")}
	assert.Equal(t, `"here" rank -2`, contenderOf(n).more())
	assert.Empty(t, contenderOf(coord.Node{}).more())
}

// refusing is a driver whose service has come to refuse looks at lines.
type refusing struct{ driver.Driver }

func (refusing) First(context.Context, string, int, *driver.Look) (driver.Look, error) {
	return driver.Look{}, fmt.Errorf("%w: no more", driver.ErrDenied)
}

func TestWhoMayNotLookAnyMoreIsToldSo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		asked := []coord.Node{{Line: "a", Token: 256}}
		left, err := (&asker{name: "a"}).untilGone(t.Context(), coord.NewClient(refusing{s.Client().Driver()}), asked)
		require.ErrorIs(t, err, coord.ErrDenied)
		assert.Equal(t, asked, left)
	})
}
