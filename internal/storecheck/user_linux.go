package storecheck

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// AsUser runs do with the rights of another user of the machine, which takes root; without, the test is skipped. Only what do
// does in its own goroutine is done as that user.
func AsUser(t testing.TB, uid int, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act for other users")
	}
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		const same = ^uintptr(0)
		// Of this thread alone, unlike what package syscall does. Its groups stay root's.
		if _, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uintptr(uid), same); failed != 0 {
			done <- failed
			return
		}
		do()
		done <- 0
	}()
	if failed := <-done; failed != 0 {
		t.Fatal(failed)
	}
}
