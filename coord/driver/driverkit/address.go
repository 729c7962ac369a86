package driverkit

import "net"

// OnThisMachine reports whether an address, with or without a port, is on this machine: what goes there does not leave
// the machine, so nobody can listen on the way.
func OnThisMachine(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
