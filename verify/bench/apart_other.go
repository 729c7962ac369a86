//go:build !unix

package main

import (
	"context"
	"errors"
)

const apartVariable = "TURNWISE_BENCH_APART"

func runApart(context.Context, *Contestant, string, Scenario) (Sample, error) {
	return Sample{}, errors.ErrUnsupported
}

func sit(context.Context, string) error { return errors.ErrUnsupported }
