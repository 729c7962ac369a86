package trace

import (
	"fmt"
	"hash/fnv"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const clockMonotonic = 1

// machineClock returns the clock that all processes of a machine share from its boot on. Go's times are on the same
// clock, but begin elsewhere.
func machineClock() (clock, bool) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return clock{}, false
	}
	namespace, _ := os.Readlink("/proc/self/ns/time") // a container may have a time of its own
	id := fnv.New64a()
	fmt.Fprintf(id, "%s %s", boot, namespace)
	c := clock{id: fmt.Sprintf("%016x", id.Sum64())}
	for narrowest, tries := time.Hour, 0; tries < 100; tries++ { // we may be stopped between two looks
		var ts syscall.Timespec
		before := time.Now()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
			return clock{}, false
		}
		took := time.Since(before)
		if took < narrowest {
			narrowest, c.base, c.ticks = took, before, ts.Nano()
		}
		if narrowest < blur/20 || narrowest < blur/2 && tries >= 10 {
			return c, true
		}
	}
	return clock{}, false
}
