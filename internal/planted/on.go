//go:build planted

package planted

import "sync/atomic"

var current atomic.Pointer[Bug]

// Is reports whether a bug is planted.
func Is(b Bug) bool {
	p := current.Load()
	return p != nil && *p == b
}

// Plant puts one bug into the process until the returned function is called.
func Plant(b Bug) (pull func()) {
	current.Store(&b)
	return func() { current.Store(nil) }
}
