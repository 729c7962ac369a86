package kube

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Store keeps registers as Lease objects of one namespace. It is a [register.Store].
type Store struct {
	config
	base   *url.URL // of the namespace's leases
	client *http.Client
	hangUp func()      // closes the connections, if they are ours
	found  atomic.Bool // an API server was there, and the store is open

	streams streams

	known *storekit.Known[*memory]
	life  *driverkit.Life // what listens runs on it
}

var _ register.Reconnecting = (*Store)(nil)

// RunsSince goes by the watches. Each ends with the server that it leads to, while all else connects again. So as long as one is open,
// and none was cut, the server is the same.
func (s *Store) RunsSince() time.Time { return s.streams.unbroken() }

// Strength returns what Kubernetes promises: an API server answers a write when a majority of etcd has it on disk.
func (s *Store) Strength() driver.Strength {
	return driver.Strength{
		Restart:  driver.Remembers,
		Failover: driver.Remembers,
		Tokens:   driver.RiseForEver,
		WakeUp:   driver.Told,
	}
}

// Close ends the listening, and closes the connections unless they are the user's.
func (s *Store) Close() error {
	s.life.End(storekit.ErrClosed)
	_ = s.life.Rest(context.Background())
	s.hangUp()
	return nil
}
