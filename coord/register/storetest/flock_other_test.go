//go:build !unix

package storetest

import (
	"errors"

	"github.com/turnwise/turnwise/coord/register"
)

func openFlock(string) (register.Store, error) { return nil, errors.ErrUnsupported }
