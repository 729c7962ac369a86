package coord

import (
	"context"
	"fmt"

	"github.com/turnwise/turnwise/coord/driver"
)

// Strength is what a service promises, and what a program can ask for.
type Strength = driver.Strength

// What to ask for with [Require]; docs/engines.md says what each of them means, and who promises it.
const (
	FirstCome     = driver.FirstCome     // Order: whoever joined first goes first, in whichever process
	ByTTL         = driver.ByTTL         // Death: a session that is not heard from for a TTL ends
	ByKernel      = driver.ByKernel      // Death: the kernel reports a crash at once
	ForgetsOpenly = driver.ForgetsOpenly // Restart, Failover: who forgets says so, and nobody enters beside a holder
	Remembers     = driver.Remembers     // Restart, Failover: what was answered is still there
	RiseForEver   = driver.RiseForEver   // Tokens: also when a restart has made the service forget all else
	Told          = driver.Told          // WakeUp: waiters need not poll
)

// Require has the client refuse a service that promises less than this. Each call then returns an error that is
// ErrTooWeak and says what was asked for and what is promised, and asks the service nothing; zk.Connect, etcd.Connect
// and the like return it before they dial. A field that is zero asks for nothing. If Require is given several times,
// each must be met.
//
//	coord.Require(coord.Strength{Restart: coord.ForgetsOpenly, Death: coord.ByTTL})
//
// See docs/engines.md for what each service promises.
func Require(least Strength) Option {
	return func(c *Client) { c.required = append(c.required, least) }
}

// CheckStrength returns the error (ErrTooWeak) with which a client with these options refuses a service of this
// strength, or nil if it accepts the service. It is for authors of a driver's Connect.
func CheckStrength(s Strength, opts ...Option) error {
	var c Client
	c.setUp(opts)
	return c.checkStrength(func() Strength { return s })
}

func (c *Client) checkStrength(of func() Strength) error {
	for _, least := range c.required {
		if lacks := of().Lacks(least); lacks != "" {
			return fmt.Errorf("%w: %s", ErrTooWeak, lacks)
		}
	}
	return nil
}

// noMore says why the client gives no more turns: it was closed, or refused its service from the start.
func (c *Client) noMore() error { return context.Cause(c.life) }
