package driverkit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
)

// OnThisMachine reports whether an address, with or without a port, is on this machine: what goes there does not leave
// the machine, so nobody can listen on the way. The name localhost counts if this machine itself says where it leads.
func OnThisMachine(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return host == "localhost" && localhostIsHere() || net.ParseIP(host).IsLoopback()
}

// CheckAddress returns what is wrong with an address that nobody could dial as host:port, whatever becomes of the network.
func CheckAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	_, notIP := netip.ParseAddr(host)
	if err != nil || strings.ContainsAny(host, " /?#@") || strings.ContainsFunc(host, unicode.IsControl) || strings.Contains(host, ":") && notIP != nil {
		return fmt.Errorf("the address %q is not host:port", bare(addr))
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return fmt.Errorf("the address %q has no port from 1 to 65535", bare(addr))
	}
	return nil
}

// bare leaves out what may be a password, which somebody has written where none belongs.
func bare(addr string) string {
	if at := strings.LastIndexByte(addr, '@'); at >= 0 {
		return "…" + addr[at:]
	}
	return addr
}

// localhostIsHere reports whether the file of hosts has localhost, as an address of the loopback interface. Where it has not, a
// DNS server may be asked, and could lead a password anywhere.
func localhostIsHere() bool {
	if runtime.GOOS == "windows" { // it answers by itself
		return true
	}
	nobody := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no DNS server is asked")
	}}
	all, err := nobody.LookupNetIP(context.Background(), "ip", "localhost")
	return err == nil && !slices.ContainsFunc(all, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() })
}

// CheckPassword is the rule of all services: a password goes only to this machine, or over TLS to a server that has to prove
// who it is. That a service may use a password without showing it makes no difference: whoever answers in the server's place
// gets enough to find the password out, or asks for it in clear. For the same reason a socket does not count where anybody on
// this machine could have put it.
//
// addr is where the password would go, a path being that of a socket, and cfg how it is encrypted: nil if it is not. Against
// the rule CheckPassword returns an error that says what to do, or, if that is allowed, logs a warning and returns nil.
func CheckPassword(addr string, cfg *tls.Config, allowed bool, log *slog.Logger) error {
	how, remedy := "in clear", "use TLS and check the certificate"
	switch {
	case isSocket(addr) && !anybodyMayListen(addr), OnThisMachine(addr), cfg != nil && proves(cfg):
		return nil
	case isSocket(addr):
		how, remedy = "where anybody on this machine can listen", "have the socket in a directory that only the server's user may write to"
	case strings.HasPrefix(addr, "localhost:") && cfg == nil:
		how, remedy = "wherever a DNS server says, since the file of hosts does not", "write 127.0.0.1"
	case cfg != nil:
		how = "whoever answers there, since nobody checks the certificate"
	}
	if allowed {
		log.Warn("turnwise: a password is sent to a server that does not prove who it is", "address", addr, "sent", how)
		return nil
	}
	return fmt.Errorf("the password would go to %s, %s: %s, or WithCleartextPassword "+
		"(cleartext=yes in a URL) if nobody can listen on the way, or answer", addr, how, remedy)
}

// Socket returns the address of a socket for CheckPassword, whose path may be relative.
func Socket(path string) string {
	if abs, err := filepath.Abs(path); err == nil && !strings.HasPrefix(path, "@") {
		return abs
	}
	return path
}

// isSocket reports whether an address is that of a socket: a path, or a name in no directory.
func isSocket(addr string) bool { return filepath.IsAbs(addr) || strings.HasPrefix(addr, "@") }

// proves reports whether a server must have a certificate that counts.
func proves(cfg *tls.Config) bool {
	return !cfg.InsecureSkipVerify || cfg.VerifyPeerCertificate != nil || cfg.VerifyConnection != nil
}
