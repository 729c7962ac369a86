package simulation

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

const (
	short = 15 * time.Millisecond
	long  = 180 * time.Millisecond // long enough for the node to be watched over
)

// plays are what scripts run. The plays with two short parts are for pairs of faults.
var plays = map[string][]part{
	"mutex": {
		{0, []act{{acquire: lock, works: long}, {acquire: lock, works: short}}},
		{3 * time.Millisecond, []act{{acquire: lock, works: short}}},
		{6 * time.Millisecond, []act{{acquire: tryLock, try: true, works: short}, {acquire: lock, works: short}}},
	},
	"rwlock": {
		{0, []act{{acquire: wlock, works: long, inside: downgrade}}},
		{3 * time.Millisecond, []act{{acquire: rlock, works: short}, {acquire: wlock, works: short}}},
		{6 * time.Millisecond, []act{{acquire: wlock, works: short}, {acquire: rlock, works: long}}},
	},
	"demotion": { // with a writer right behind
		{0, []act{{acquire: wlock, works: long, inside: downgrade}}},
		{3 * time.Millisecond, []act{{acquire: wlock, works: short}}},
		{6 * time.Millisecond, []act{{acquire: rlock, works: short}}},
	},
	"semaphore": {
		{0, []act{{acquire: permits(3, 2), works: long}, {acquire: permits(3, 1), works: short}}},
		{3 * time.Millisecond, []act{{acquire: permits(3, 2), works: short}}},
		{6 * time.Millisecond, []act{{acquire: permits(3, 1), works: short}, {acquire: permits(3, 3), works: short}}},
	},
	"crowd": { // many permits follow a rule of their own
		{0, []act{{acquire: permits(9, 5), works: long}, {acquire: permits(9, 4), works: short}}},
		{3 * time.Millisecond, []act{{acquire: permits(9, 5), works: short}}},
		{6 * time.Millisecond, []act{{acquire: permits(9, 4), works: short}, {acquire: permits(9, 9), works: short}}},
	},
	"election": {
		{0, []act{{acquire: campaign, works: long, inside: proclaim}, {acquire: campaign, works: short}}},
		{3 * time.Millisecond, []act{{acquire: campaign, works: short, inside: proclaim}}},
		{6 * time.Millisecond, []act{{acquire: campaign, works: short}}},
	},
	"vigil": { // somebody holds for longer than a session lives by itself
		{0, []act{{acquire: lock, works: 2 * scriptTTL}}},
		{3 * time.Millisecond, []act{{acquire: lock, works: short}}},
	},
	"idler": { // somebody has idled when he wants to hold for that long, and somebody else wants to hold next
		{0, []act{{acquire: lock, works: short}, {works: scriptTTL * 7 / 8}, {acquire: lock, works: 2 * scriptTTL}}},
		{3 * time.Millisecond, []act{{acquire: lock, works: scriptTTL * 15 / 16}, {acquire: lock, works: short}}},
	},

	"mutex2":     {{0, []act{{acquire: lock, works: short}}}, {2 * time.Millisecond, []act{{acquire: lock, works: short}}}},
	"rwlock2":    {{0, []act{{acquire: wlock, works: short, inside: downgrade}}}, {2 * time.Millisecond, []act{{acquire: wlock, works: short}}}},
	"semaphore2": {{0, []act{{acquire: permits(3, 2), works: short}}}, {2 * time.Millisecond, []act{{acquire: permits(3, 2), works: short}}}},
	"crowd2":     {{0, []act{{acquire: permits(9, 5), works: short}}}, {2 * time.Millisecond, []act{{acquire: permits(9, 5), works: short}}}},
	"election2":  {{0, []act{{acquire: campaign, works: short, inside: proclaim}}}, {2 * time.Millisecond, []act{{acquire: campaign, works: short}}}},
}

var (
	fullPlays  = []string{"idler", "mutex", "rwlock", "demotion", "semaphore", "crowd", "election", "vigil"}
	shortPlays = []string{"mutex2", "rwlock2", "semaphore2", "crowd2", "election2"}
)

const stage = "a" // the line

func lock(ctx context.Context, c *client) (*coord.Hold, error) {
	return mutex.New(c.Client, stage).Lock(ctx)
}

func tryLock(ctx context.Context, c *client) (*coord.Hold, error) {
	return mutex.New(c.Client, stage).TryLock(ctx)
}

func wlock(ctx context.Context, c *client) (*coord.Hold, error) {
	return rwlock.New(c.Client, stage).Lock(ctx)
}

func rlock(ctx context.Context, c *client) (*coord.Hold, error) {
	return rwlock.New(c.Client, stage).RLock(ctx)
}

func downgrade(ctx context.Context, c *client, h *coord.Hold) error {
	return rwlock.New(c.Client, stage).Downgrade(ctx, h)
}

func permits(n, weight int64) func(context.Context, *client) (*coord.Hold, error) {
	return func(ctx context.Context, c *client) (*coord.Hold, error) {
		return semaphore.New(c.Client, stage, n).Acquire(ctx, weight)
	}
}

func campaign(ctx context.Context, c *client) (*coord.Hold, error) {
	t, err := election.New(c.Client, stage).Campaign(ctx, []byte(c.name))
	if err != nil {
		return nil, err
	}
	return t.Hold, nil
}

func proclaim(ctx context.Context, c *client, h *coord.Hold) error {
	return (&election.Term{Hold: h}).Proclaim(ctx, []byte(c.name+" again"))
}
