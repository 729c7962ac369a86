//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sharedfile

import "os"

func lockShared(*os.File) bool { return true }

func isOpen(*os.File) (open, known bool) { return false, false }

// syncDir does nothing where a directory cannot be synced.
func syncDir(string) error { return nil }
