package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/servers"
)

func service(m *servers.Member, opts ...Option) func(t testing.TB) *drivertest.Service {
	return func(t testing.TB) *drivertest.Service {
		opts := append([]Option{WithTable(freshTable())}, opts...)
		clean := register.New(opened(t, m.URL(), opts...))
		t.Cleanup(func() { clean.Close(context.Background()) })
		return &drivertest.Service{
			TTL: time.Second,
			Connect: func(t testing.TB) *drivertest.Link {
				d := register.New(opened(t, m.URL(), opts...), register.WithTTL(time.Second), register.WithLogger(drivertest.Logger(t)))
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

func TestConformance(t *testing.T) { drivertest.Run(t, service(sharedServer(t))) }
func TestRecipes(t *testing.T)     { drivertest.RunRecipes(t, service(sharedServer(t))) }
