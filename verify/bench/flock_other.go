//go:build !unix

package main

import (
	"context"
	"errors"
)

func openFlock(context.Context, Setting) (Client, error) { return nil, errors.ErrUnsupported }
