package kube

import (
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
		TTL:   2 * time.Second,
		Open: func(t testing.TB) register.Store {
			return opened(t, append(f.options(t), WithLongestTTL(register.MinTTL))...)
		},
	}
}

func TestStoreOnTheFake(t *testing.T) { storetest.Run(t, onFake) }

func TestConformanceOnTheFake(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, onFake(t)) })
}
