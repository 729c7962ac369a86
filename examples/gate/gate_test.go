package gate_test

import (
	"testing"
	"testing/synctest"

	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/examples/gate"
)

func TestGateOpensWhenTheLastOneLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		a, err := gate.New(service.Client(), "gate").Shut(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := gate.New(service.Client(), "gate").Shut(t.Context())
		if err != nil {
			t.Fatal("the gate cannot be held shut by two:", err)
		}
		passed := make(chan error, 2)
		for range 2 {
			go func() { passed <- gate.New(service.Client(), "gate").Pass(t.Context()) }()
		}
		for _, h := range []interface{ Release() error }{a, b} {
			synctest.Wait()
			if len(passed) > 0 {
				t.Fatal("somebody passed a gate that is shut")
			}
			h.Release()
		}
		for range 2 {
			if err := <-passed; err != nil {
				t.Fatal(err)
			}
		}
	})
}
