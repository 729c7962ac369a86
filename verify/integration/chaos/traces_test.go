package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/postgres"
	"github.com/turnwise/turnwise/coord/trace"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// Somebody asks and is cut off, and the server's disk is kept. Another one joins and gives up, and a third one has the line. Then the disk is
// put back, which knows nothing of these two. So the first one gets the number of the second, and has the line after the third.
func TestWhoHasALostNumberAfterABackupIsNotOutOfTurn(t *testing.T) {
	servers.Need(t, "postgres")
	t.Parallel()
	const ttl = 2 * time.Second
	server := servers.Postgres(t).Member(0)
	link := faultproxy.Start(t, server.Addr())
	proxied, err := url.Parse(server.URL())
	require.NoError(t, err)
	proxied.Host = link.Addr()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	path := filepath.Join(t.TempDir(), "trace")
	written, err := os.Create(path)
	require.NoError(t, err)
	defer written.Close()
	connect := func(to string) *coord.Client {
		c, err := postgres.Connect(ctx, to, postgres.WithTTL(ttl), postgres.WithLongestTTL(ttl), postgres.WithClient(coord.WithObserver(trace.To(written, "s"))))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	first, second, third := connect(proxied.String()), connect(server.URL()), connect(server.URL())

	_, err = mutex.New(second, "line").Lock(ctx) // until the server is stopped: it ends all sessions, as it writes nothing down in time
	require.NoError(t, err)
	link.Blackhole()
	asked := mutex.New(first, "line").LockChan(ctx)
	server.KeepDisk(t)
	waiting, giveUp := context.WithCancel(ctx)
	gaveUp := mutex.New(second, "line").LockChan(waiting)
	require.Eventually(t, func() bool {
		all, err := third.Line(ctx, "line")
		return err == nil && len(all) == 2
	}, time.Minute, 10*time.Millisecond)
	giveUp()
	require.Error(t, (<-gaveUp).Err)
	var held *coord.Hold
	for held == nil { // until it is sure that the one ahead is dead
		require.NoError(t, ctx.Err())
		held, _ = mutex.New(third, "line").TryLock(ctx)
		time.Sleep(10 * time.Millisecond)
	}
	require.NoError(t, held.Release())
	away := pause{from: mono()}
	server.PutBackDisk(t)
	away.to = mono()
	link.Heal()
	r := <-asked
	require.NoError(t, r.Err)
	require.Less(t, r.Hold.Token(), held.Token())
	require.NoError(t, r.Hold.Release())
	for _, c := range []*coord.Client{first, second, third} { // then all is written
		_ = c.Close()
	}

	v, err := auditAll([]string{path}, nil)
	require.NoError(t, err)
	require.Len(t, v.Wrong, 1)
	require.Equal(t, trace.OutOfTurn, v.Wrong[0].What)
	t.Log(v.Wrong[0])
	v, err = auditAll([]string{path}, []pause{away})
	require.NoError(t, err)
	require.Empty(t, v.Wrong)
}

// Two are let in on one side of a time when the service was away, the one that came first later, and two at once on both sides of it.
func TestABackupExcusesNobodyElse(t *testing.T) {
	var all strings.Builder
	n := 0
	kind, id := "lock", ""
	tell := func(event, line string, token int, at time.Duration, waited time.Duration) {
		n++
		fmt.Fprintf(&all, `{"v":1,"time":"2026-11-22T12:00:%02dZ","event":%q,"service":"s","line":%q,"token":"%d","kind":%q,"id":"%s%s%d","waited":%d,"host":"h","pid":1,"by":"b","n":%d,"clock":"c","ticks":%d}`+"\n",
			at/time.Second, event, line, token, kind, id, line, token, waited, n, at)
	}
	const s = time.Second
	turn := func(line string, token int, from, to time.Duration) {
		tell("granted", line, token, from, from-s)
		tell("released", line, token, to, 0)
	}
	turn("before", 2, 10*s, 11*s)
	turn("before", 1, 12*s, 22*s) // released after it
	turn("after", 2, 30*s, 31*s)
	turn("after", 1, 32*s, 33*s)
	turn("both", 2, 10*s, 11*s)
	turn("both", 1, 32*s, 33*s)
	turn("at once", 1, 10*s, 33*s)
	turn("at once", 2, 32*s, 34*s)
	// Two read at once, and the numbers are given again: a writer waits with the first before the service can be heard.
	kind = "R"
	turn("again", 2, 10*s, 12*s)
	turn("again", 1, 11*s, 13*s)
	kind, id = "W", "later-"
	tell("waiting", "again", 1, 24*s, 0)
	turn("again", 1, 31*s, 32*s)
	path := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(path, []byte(all.String()), 0o600))
	found := func(lost ...pause) map[string]trace.Fault {
		v, err := auditAll([]string{path}, lost)
		require.NoError(t, err)
		v.Wrong = slices.DeleteFunc(v.Wrong, func(f trace.Finding) bool { return f.What == trace.GivenTwice }) // as the service forgot
		byLine := map[string]trace.Fault{}
		for _, f := range v.Wrong {
			byLine[f.Line] = f.What
		}
		require.Len(t, v.Wrong, len(byLine), "each once")
		return byLine
	}
	wrong := map[string]trace.Fault{"before": trace.OutOfTurn, "after": trace.OutOfTurn, "both": trace.OutOfTurn, "at once": trace.TwoAtOnce}
	require.Equal(t, wrong, found())
	delete(wrong, "both")
	require.Equal(t, wrong, found(pause{from: 20 * s, to: 25 * s}))
	require.Equal(t, wrong, found(pause{from: 20 * s, to: 21 * s}, pause{from: 23 * s, to: 25 * s}))
}
