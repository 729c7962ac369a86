package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Memory is one stretch of time in which the database has forgotten nothing.
type Memory struct {
	id      string
	run     string        // of the server
	history string        // the replication id of the server
	lasts   time.Duration // so far
}

// IDSize is the length of an ID.
const IDSize = 16

// Called returns a memory by its ID, for tests of those who tell memories apart by that.
func Called(id string) Memory { return Memory{id: id} }

// ID returns what tells memories apart. No two servers have the same.
func (m Memory) ID() string { return m.id }

// IsBeside reports whether both are memories of one server in one run, be it of two of its databases.
func (m Memory) IsBeside(other Memory) bool {
	return m.id == other.id || m.run != "" && m.run == other.run
}

// For returns for how long the memory has lasted in the server's present run, by its wall clock. It is negative if that was set back to
// before the run began.
func (m Memory) For() time.Duration { return m.lasts }

// ended are the memories that were found before the one that is found now, each with the run of its server. If one comes back
// in another run, the server has been started with what was on its disk before it had others, unless the address has led to another
// server for a while, and the one that it leads to again was restarted meanwhile: that cannot be told from here. In the same run, the
// address has led elsewhere.
type ended struct {
	looking storekit.Looking // for whoever uses what follows
	now     Memory
	all     map[string]string
}

// renewals is the greatest number of renewals that was seen in a memory.
type renewals struct {
	mu     sync.Mutex
	memory string
	number int64
}

func (r *renewals) last() (memory string, number int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory, r.number
}

// Renewals is the key with the number of renewals: each counts itself there. It tells who has seen it whether the server goes on with
// a file that is older than that.
func (s *Server) Renewals() string { return s.Beside("renewals") }

// Renewed is told the number that a renewal has counted itself as. in is the memory that was known when it was sent: the answer may be
// late, and the server have another one by now, whose number has nothing to do with that.
func (s *Server) Renewed(known Known, in Memory, number int64) {
	if m, err := known.Current(); err != nil || m.id != in.id {
		return
	}
	r := &s.renewals
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory != in.id {
		r.memory, r.number = in.id, 0
	}
	r.number = max(r.number, number)
}

// Recall asks what the server remembers, and has it write a mark if that is unknown.
func (s *Server) Recall(ctx context.Context) (Memory, error) {
	done, err := s.ended.looking.Begin(ctx)
	if err != nil {
		return Memory{}, err
	}
	defer done()
	m, err := s.recall(ctx, "")
	if run, again := s.ended.all[m.id]; err == nil && again && !s.MayComeBack && run != m.run && s.ended.now.id != m.id {
		s.Log.Warn("redis: the server has gone back to what it had stored before", "address", s.Address, "memory", m.id)
		m, err = s.recall(ctx, m.id)
	}
	if err == nil {
		if m.id != s.ended.now.id {
			s.ended.all[s.ended.now.id] = s.ended.now.run
		}
		s.started.IsNamed(m.run)
		s.ended.now = m
		s.history.Store(&m.history)
	}
	return m, err
}

// RunsSince returns since when the server is known to run.
func (s *Server) RunsSince() time.Time { return s.started.Since() }

// recall is Recall, and ends a memory that is not to be gone on with.
func (s *Server) recall(ctx context.Context, over string) (Memory, error) {
	up, err := s.conn.get(ctx)
	if err != nil {
		return Memory{}, explain(err)
	}
	keeps, err := up.keeps(ctx)
	if err != nil {
		return Memory{}, err
	}
	kept := "0"
	if keeps {
		kept = "1"
	}
	id := register.NewVersion()
	// Sent whole, since a server that has the other scripts already would not notice that the user may not send any.
	in, renewals := s.renewals.last()
	reply, err := up.Do(ctx, up.B().Eval().Script(recallScript).Numkeys(3).Key(s.mark, s.index, s.Renewals()).
		Arg(hex.EncodeToString(id[:]), kept, over, in, strconv.FormatInt(renewals, 10)).Build()).ToMessage()
	if err != nil {
		return Memory{}, explain(err)
	}
	if n, _ := reply.AsInt64(); reply.IsInt64() && n == 1 {
		return Memory{}, errEvicts
	}
	if reply.IsInt64() {
		// A client that goes by sentinels is led to the new master by a new connection.
		up.end()
		return Memory{}, ErrReplica
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 5 {
		return Memory{}, fmt.Errorf("%w: %w", ErrStrange, err)
	}
	name, err := parts[0].ToString()
	if err != nil {
		return Memory{}, err
	}
	us, err := parts[1].AsInt64()
	if err != nil {
		return Memory{}, err
	}
	run, err := parts[3].ToString()
	if err != nil {
		return Memory{}, err
	}
	history, err := parts[4].ToString()
	return Memory{id: name, run: run, history: history, lasts: storekit.Since(us)}, err
}

// keeps reports whether the server has on its disk what it has answered. If we may not ask, it reports false. But if it cannot answer
// now it returns an error: a memory that is kept must not end because a connection to its server was lost, as happens when that restarts.
func (up *link) keeps(ctx context.Context) (bool, error) {
	for setting, want := range map[string]string{"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"} {
		got, err := up.Do(ctx, up.B().ConfigGet().Parameter(setting).Build()).AsStrMap()
		if answer, ok := rueidis.IsRedisErr(err); ok && !isBusy(answer) {
			return false, nil
		}
		if err != nil || got[setting] != want {
			return false, explain(err)
		}
	}
	return true, nil
}

// isBusy reports whether a server will answer later.
func isBusy(answer *rueidis.RedisError) bool {
	return slices.ContainsFunc([]string{"LOADING", "BUSY", "MASTERDOWN"}, func(says string) bool { return strings.HasPrefix(answer.Error(), says) })
}
