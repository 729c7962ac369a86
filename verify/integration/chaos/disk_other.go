//go:build !linux

package main

import "errors"

func mountSmallDisk(string) error { return errors.ErrUnsupported }

func unmount(string) {}
