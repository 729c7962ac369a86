//go:build !linux && !darwin

package top

import "github.com/gdamore/tcell/v3"

// pause does nothing on this system.
func pause(tcell.Screen) error { return nil }
