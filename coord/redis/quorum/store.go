package quorum

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Store keeps registers in several Redis servers, as a rule three or five, that know nothing of one another. It goes on, and
// forgets nothing, as long as more than half of them can be reached and have forgotten nothing.
//
// Each register is agreed upon by CASPaxos: the servers are the acceptors, and each process is a proposer.
type Store struct {
	root   string // what keys begin with
	log    *slog.Logger
	all    []*acceptor
	me     string          // our name for the referees
	life   *driverkit.Life // requests do not end with their callers: what one acceptor has, all should have
	ledger *ledger
	trip   atomic.Int64 // how long a trip takes, ns

	seating sync.Mutex // held while an acceptor takes a seat

	roster    atomic.Pointer[roster]
	following chan struct{} // held while the roster is looked for
	forgot    atomic.Bool   // another group was founded, and Memory has not been asked since
}

var _ register.Store = (*Store)(nil)

// Strength returns what Redis promises with appendfsync always. A majority takes over from a minority that is gone.
func (q *Store) Strength() driver.Strength { return strength }

var strength = driver.Strength{
	Order:    driver.FirstCome,
	Death:    driver.ByTTL,
	Restart:  driver.Remembers,
	Failover: driver.Remembers,
	Tokens:   driver.RiseForEver,
	WakeUp:   driver.Told,
}

// usual is how long a trip takes.
func (q *Store) usual() time.Duration { return time.Duration(q.trip.Load()) + 20*time.Microsecond }

// took records how long a trip took.
func (q *Store) took(trip time.Duration) {
	was := q.trip.Load()
	q.trip.Store(was + (int64(trip)-was)/8)
}

// canServe returns why a call would be in vain.
func (q *Store) canServe() error {
	switch {
	case q.life.Over():
		return storekit.ErrClosed
	case q.forgot.Load():
		return register.ErrForgot
	}
	return nil
}

// Close ends the connections.
func (q *Store) Close() error {
	q.life.End(storekit.ErrClosed)
	var closing sync.WaitGroup
	for _, a := range q.all {
		closing.Go(a.Close)
	}
	closing.Wait()
	return q.life.Rest(context.Background())
}
