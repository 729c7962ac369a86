package driverkit

import "net"

// OnThisMachine reports whether nobody can listen on the way to an address, with or without a port: what goes there does
// not leave the machine.
func OnThisMachine(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
