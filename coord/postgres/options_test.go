package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect:    storecheck.To(Connect, "postgres://user@127.0.0.1:1/d"),
		Open:       storecheck.To(Open, "postgres://user@127.0.0.1:1/d"),
		New:        storecheck.To(New, (*pgxpool.Pool)(nil)),
		WithClient: WithClient, WithTTL: WithTTL, WithLongestTTL: WithLongestTTL,
	})
}
