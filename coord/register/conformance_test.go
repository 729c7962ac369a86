package register_test

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
)

func plainService(store *storetest.Memory) func(t testing.TB) *drivertest.Service {
	return func(t testing.TB) *drivertest.Service {
		clean := register.New(store)
		t.Cleanup(func() { clean.Close(context.Background()) })
		return &drivertest.Service{
			TTL: time.Second,
			Connect: func(t testing.TB) *drivertest.Link {
				d := register.New(store, register.WithTTL(time.Second), register.WithLogger(drivertest.Logger(t)))
				t.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					defer cancel()
					if err := d.Close(ctx); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
				return &drivertest.Link{Driver: d}
			},
			Stored: func(t testing.TB, line string) (ids []string) {
				nodes, err := clean.Line(context.Background(), line)
				if err != nil {
					t.Error(err)
				}
				for _, n := range nodes {
					ids = append(ids, n.ID)
				}
				return ids
			},
		}
	}
}

func TestConformance(t *testing.T)     { drivertest.Run(t, plainService(storetest.NewMemory())) }
func TestConformanceMute(t *testing.T) { drivertest.Run(t, plainService(storetest.NewMuteMemory())) }
func TestRecipes(t *testing.T)         { drivertest.RunRecipes(t, plainService(storetest.NewMemory())) }
