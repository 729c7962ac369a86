package register

import (
	"crypto/sha256"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// uptime returns for how long this machine has been up, asleep or not, and what tells it from others. No process can set that
// clock, and all on the machine have the same. But a container may have another boot id, or a clock that was moved: then it
// passes for a machine of its own.
func uptime() (m machine, up time.Duration, ok bool) {
	const boottime = 7
	var at syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, boottime, uintptr(unsafe.Pointer(&at)), 0); errno != 0 {
		return m, 0, false
	}
	m, ok = thisMachine()
	return m, time.Duration(at.Nano()), ok
}

var thisMachine = sync.OnceValues(func() (m machine, ok bool) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	clocks, _ := os.Readlink("/proc/self/ns/time") // missing before Linux 5.6: then nobody's clock can be moved
	sum := sha256.Sum256(append(boot, clocks...))
	return machine(sum[:len(m)]), err == nil && len(boot) > 0
})
