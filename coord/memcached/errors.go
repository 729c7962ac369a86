package memcached

import (
	"errors"
	"fmt"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

var (
	errPassword = storekit.Denied("the server asks for a password (-Y or -S), which this driver does not know how to give: start it without")
	errForeign  = storekit.NotOurs("a key of ours holds something else: name another root with WithRoot")
	errShelf    = errors.New("the list of keys is broken")
)

// full returns the error for a server that cannot keep an item.
func full(why string) error {
	return fmt.Errorf("the server cannot keep it: give it more memory with -m: %s", why)
}

// cut is an error after which the connection is of no more use.
type cut struct{ error }

func (c *cut) Unwrap() error { return c.error }

func isCut(err error) bool {
	var c *cut
	return errors.As(err, &c) && !errors.Is(err, driver.ErrDenied)
}
