package main

import "syscall"

func mountSmallDisk(dir string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256m,mode=0700")
}

func unmount(dir string) { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }
