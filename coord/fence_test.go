package coord_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord"
)

func TestAFenceRefusesWhatIsOlderThanWhatItHasSeen(t *testing.T) {
	var f coord.Fence
	for _, c := range []struct {
		token  coord.Token
		passes bool
	}{{3, true}, {3, true}, {2, false}, {7, true}, {3, false}, {7, true}} {
		if err := f.Pass(c.token); c.passes {
			assert.NoError(t, err, "%d", c.token)
		} else {
			assert.ErrorIs(t, err, coord.ErrStale, "%d", c.token)
		}
	}
	assert.EqualValues(t, 7, f.Last())
	restarted := coord.NewFence(f.Last())
	assert.ErrorIs(t, restarted.Pass(6), coord.ErrStale)
	assert.NoError(t, restarted.Pass(7))
}
