package redisfence_test

import (
	"context"
	"errors"
	"log"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/redisfence"
)

// Count down a stock, unless somebody else holds the lock by now.
func ExampleFence_Do() {
	var eval redisfence.Eval // a few lines for your client: see the package comment
	var hold *coord.Hold     // from a mutex.Mutex, or another recipe
	fences := redisfence.New(eval)

	const take = `
		local left = redis.call('DECRBY', KEYS[1], ARGV[1])
		if left < 0 then redis.call('INCRBY', KEYS[1], ARGV[1]) end
		return left`
	left, err := fences.Do(context.Background(), "stock", fence.Stamp{Token: hold.Token()}, take, []string{"{stock}:books"}, []string{"3"})
	if errors.Is(err, coord.ErrStale) {
		log.Print("somebody else holds by now, and nothing was taken")
	}
	log.Print(left, err)
}
