package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A reservation keeps a port from other test binaries of this user: it is a lock on a file named after the port, which
// the kernel drops when we die. Processes that make no reservations are detected later, by [Process.listens].
type reservation struct {
	port int
	lock *os.File
}

func (r reservation) release() { _ = r.lock.Close() }

func reservePort() (reservation, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("turnwise-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return reservation{}, err
	}
	low, high := portRange()
	var last error
	for range 100 {
		port := low + rand.IntN(high-low)
		lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return reservation{}, err
		}
		if last = errors.Join(tryLockFile(lock), free(port)); last == nil {
			return reservation{port, lock}, nil
		}
		_ = lock.Close()
	}
	return reservation{}, fmt.Errorf("no free port found between %d and %d: %w", low, high, last)
}

func free(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// portRange lies below the ports that the kernel gives to clients and to listeners on port 0.
func portRange() (low, high int) {
	low, high = 15000, 32768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) == 2 {
			high, _ = strconv.Atoi(fields[0])
		}
	}
	if high-low < 1000 {
		return 15000, 65000 // the kernel's range starts early here: clashes are possible, and noticed
	}
	return low, high
}
