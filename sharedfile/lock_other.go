//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sharedfile

import "os"

const notWaiting = 0

func lockShared(*os.File) (locked, known bool) { return false, false }

func lockAlone(*os.File) (locked, known bool) { return false, false }

// syncDir does nothing where a directory cannot be synced.
func syncDir(string) error { return nil }

func syncOpen(*os.File) error { return nil }
