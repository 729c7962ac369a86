package coord

import (
	"context"
	"fmt"

	"github.com/turnwise/turnwise/coord/driver"
)

// Require has the client refuse a service that promises less than this. Each call then returns an error that is
// ErrTooWeak and says what was asked for and what is promised, and asks the service nothing; zk.Connect, etcd.Connect
// and the like return it before they dial. A field that is zero asks for nothing. If Require is given several times,
// each must be met.
//
//	coord.Require(driver.Strength{Restart: driver.ForgetsOpenly, Death: driver.ByTTL})
//
// See docs/engines.md for what each service promises.
func Require(least driver.Strength) Option {
	return func(c *Client) { c.required = append(c.required, least) }
}

// CheckStrength returns the error (ErrTooWeak) with which a client with these options refuses a service of this
// strength, or nil if it accepts the service. It is for authors of a driver's Connect.
func CheckStrength(s driver.Strength, opts ...Option) error {
	var c Client
	c.setUp(opts)
	return c.checkStrength(func() driver.Strength { return s })
}

func (c *Client) checkStrength(of func() driver.Strength) error {
	for _, least := range c.required {
		if lacks := of().Lacks(least); lacks != "" {
			return fmt.Errorf("%w: %s", ErrTooWeak, lacks)
		}
	}
	return nil
}

// noMore says why the client gives no more turns: it was closed, or refused its service from the start.
func (c *Client) noMore() error { return context.Cause(c.life) }
