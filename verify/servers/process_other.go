//go:build !linux

package servers

import "syscall"

// Elsewhere than on Linux a child outlives a parent that was kill -9'd. Tests still end theirs.
func dieWithParent(*syscall.SysProcAttr) {}

func (p *Process) awaitFrozen() {}

// roomIn says that no folder is known to be in memory.
func roomIn(string) int64 { return 0 }

// listens cannot be looked up here. The server exits by itself when its port is taken, which is noticed.
func (p *Process) listens(int) bool { return p.Alive() }
