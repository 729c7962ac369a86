package kube

import (
	"net/http"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
)

// onFake is a system without a server, for machines that have none.
func onFake(t testing.TB) *storetest.System {
	f := newFake(t)
	return &storetest.System{
		Limit: maxValue,
		TTL:   4 * time.Second,
		Open: func(t testing.TB) register.Store {
			return opened(t, append(f.options(t), WithLongestTTL(register.MinTTL))...)
		},
		Spoil: func(t testing.TB, key string) { spoil(t, opened(t, f.options(t)...), key) },
	}
}

// spoil writes something into a lease that no store writes.
func spoil(t testing.TB, s *Store, key string) {
	t.Helper()
	var l lease
	err := s.ask(within(t, time.Minute), request{method: http.MethodGet, name: s.nameOf(key)}, &l)
	if err == nil {
		l.Metadata.Annotations[versionNote] = "nonsense"
		err = s.ask(within(t, time.Minute), request{method: http.MethodPut, name: s.nameOf(key), body: &l}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestStoreOnTheFake(t *testing.T) { storetest.Run(t, onFake) }

func TestConformanceOnTheFake(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, onFake(t)) })
}
