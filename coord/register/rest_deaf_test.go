package register_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
)

// keepsItsPlace has a process hear nothing for so long, and checks that it stands in the line as before.
func keepsItsPlace(t *testing.T, way *earless, c *coord.Client, line string, at int, come func(), deaf time.Duration) {
	t.Helper()
	was, err := c.Line(t.Context(), line)
	require.NoError(t, err)
	way.deaf.Store(true)
	come()
	time.Sleep(deaf)
	way.hearAgain()
	time.Sleep(time.Second)
	is, err := c.Line(t.Context(), line)
	require.NoError(t, err)
	require.Greater(t, len(is), at)
	assert.Equal(t, was[at].ID, is[at].ID)
}

// Two readers hold, and a writer waits for the nearer one alone. Who reads behind it calls it.
func TestAWriterBehindTwoReadersThatDoesNotHearThatItIsCalledKeepsItsPlace(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			_, clients := asOnKubernetes(t, store, restTTL, 3)
			way := &earless{Store: store}
			_, deaf := asOnKubernetes(t, way, restTTL, 1)
			for _, c := range clients[:2] {
				within(t, time.Second, rwlock.New(c, "a").RLockChan(t.Context()))
			}
			rwlock.New(deaf[0], "a").LockChan(t.Context())
			time.Sleep(5*time.Minute + time.Duration(phase)*restTTL/5)
			keepsItsPlace(t, way, clients[0], "a", 2, func() { rwlock.New(clients[2], "a").RLockChan(t.Context()) }, 3*restTTL)
		})
	}
}

// Somebody else has died at rest. So the sweeper calls all that rest.
func TestWhoIsFarBackAndDoesNotHearTheSweeperKeepsItsPlace(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			_, clients := asOnKubernetes(t, store, restTTL, 3)
			within(t, time.Second, mutex.New(clients[0], "a").LockChan(t.Context()))
			mutex.New(clients[1], "a").LockChan(t.Context())
			time.Sleep(time.Second)
			way := &earless{Store: store}
			_, deaf := asOnKubernetes(t, way, restTTL, 1)
			mutex.New(deaf[0], "a").LockChan(t.Context())
			links, others := asOnKubernetes(t, store, restTTL, 1)
			within(t, time.Second, mutex.New(others[0], "b").LockChan(t.Context()))
			time.Sleep(5*time.Minute + time.Duration(phase)*restTTL/5)
			keepsItsPlace(t, way, clients[0], "a", 2, func() { die(links...) }, 6*restTTL)
			links[0].heal()
		})
	}
}

// One waits for so many lines that it looks at each seldom.
func TestWhoWaitsForManyLinesAndDoesNotHearThatItIsCalledKeepsItsPlace(t *testing.T) {
	for phase := range 5 {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			_, clients := asOnKubernetes(t, store, restTTL, 3)
			way := &earless{Store: store}
			_, deaf := asOnKubernetes(t, way, restTTL, 1)
			for i := range 300 {
				name := fmt.Sprint("b", i)
				within(t, time.Second, mutex.New(clients[0], name).LockChan(t.Context()))
				mutex.New(clients[1], name).LockChan(t.Context())
				time.Sleep(time.Millisecond)
				mutex.New(deaf[0], name).LockChan(t.Context())
			}
			within(t, time.Second, rwlock.New(clients[0], "a").RLockChan(t.Context()))
			rwlock.New(deaf[0], "a").LockChan(t.Context())
			time.Sleep(5*time.Minute + time.Duration(phase)*restTTL/5)
			keepsItsPlace(t, way, clients[0], "a", 1, func() { rwlock.New(clients[2], "a").RLockChan(t.Context()) }, 3*restTTL)
		})
	}
}
