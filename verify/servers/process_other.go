//go:build !linux

package servers

import "syscall"

// On systems other than Linux a child outlives a parent that was kill -9'd. Tests still end their own.
func dieWithParent(*syscall.SysProcAttr) {}

func (p *Process) awaitFrozen() {}

// roomIn returns 0: no folder is known to be in memory.
func roomIn(string) int64 { return 0 }

// listens cannot find out here. But a server whose port is taken exits by itself, and that is noticed.
func (p *Process) listens(int) bool { return p.Alive() }
