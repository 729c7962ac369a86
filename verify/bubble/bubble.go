// Package bubble runs scenarios of the recipes on an in-process service, in simulated time.
package bubble

import (
	"testing"
	"testing/synctest"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
)

// Run runs a scenario on a service whose sessions live for ten seconds. At the end every line must be empty, and every
// goroutine of the scenario must have ended.
func Run(t *testing.T, scenario func(t *testing.T, s *mem.Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		defer s.Close() // also if the scenario fails: what still runs in a bubble would hide why
		scenario(t, s)
		synctest.Wait()
		names, err := s.Client().Lines(t.Context(), "")
		if err != nil || len(names) > 0 {
			t.Errorf("lines that are not empty: %q (%v)", names, err)
		}
	})
}

// Waits fails the test if there is a result once everybody has come to rest.
func Waits(t *testing.T, c <-chan coord.Result) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-c:
		t.Fatalf("it did not wait: %+v", r)
	default:
	}
}

// Enters returns the hold that must be there once everybody has come to rest.
func Enters(t *testing.T, c <-chan coord.Result) *coord.Hold {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-c:
		if r.Err != nil {
			t.Fatalf("it did not enter: %v", r.Err)
		}
		return r.Hold
	default:
		t.Fatal("it still waits")
		return nil
	}
}
