package asks_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/asks"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

func TestWhomAnAskReaches(t *testing.T) {
	ask := coord.Node{Kind: rules.Lock, Asks: "please", Data: asks.Of([]coord.Token{7, 1234})}
	for token, reached := range map[coord.Token]bool{7: true, 1234: true, 1: false, 12: false, 123: false, 8: false} {
		assert.Equal(t, reached, asks.Reaches(ask, token), "%d", token)
	}
	assert.Empty(t, asks.Value(ask))

	beside := ask
	beside.Holds = true
	assert.False(t, asks.Reaches(beside, 7), "who holds wants nothing more")
	assert.Empty(t, asks.Note(beside))
	silent := ask
	silent.Asks = ""
	assert.False(t, asks.Reaches(silent, 7))
	assert.Equal(t, "asks 7 1234", asks.Value(silent), "it is somebody's data")

	all := coord.Node{Kind: rules.Lock, Asks: "please"}
	assert.True(t, asks.Reaches(all, 7), "by coord.Client.Ask")
	leader := coord.Node{Kind: rules.Lead, Asks: "please", Data: []byte("asks a lot")}
	assert.True(t, asks.Reaches(leader, 7))
	assert.Equal(t, "asks a lot", asks.Value(leader))

	crowd := ask
	crowd.Data = asks.Of(make([]coord.Token, 10000))
	assert.True(t, asks.Reaches(crowd, 7), "so many cannot be named: all are asked")
}
