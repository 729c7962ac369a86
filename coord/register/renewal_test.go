package register_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// watching is a store that notes which swaps are said to renew a session.
type watching struct {
	register.Store
	renewals, others []string
}

func (s *watching) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if register.IsRenewal(ctx) {
		s.renewals = append(s.renewals, w.Key)
	} else {
		s.others = append(s.others, w.Key)
	}
	return s.Store.Swap(ctx, w)
}

// A store that lets requests wait for each other can tell the one that must not.
func TestARenewalSaysThatItIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &watching{Store: memory.NewStore()}
		d, session := open(t, s)
		p := join(t, session, "line")
		time.Sleep(time.Minute)
		leave(t, p)
		shut(t, d)
		assert.Greater(t, len(s.renewals), 3)
		for _, key := range s.renewals {
			assert.True(t, strings.HasPrefix(key, "session/"), key)
		}
		assert.Contains(t, s.others, "line/line")
	})
}
