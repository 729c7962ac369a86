package driverkit

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
)

// OnThisMachine reports whether an address, with or without a port, is on this machine: what goes there does not leave
// the machine, so nobody can listen on the way.
func OnThisMachine(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// CheckPassword is the rule of all services: a password goes only to this machine, or over TLS to a server that has to prove
// who it is. That a service may use a password without showing it makes no difference: whoever answers in the server's place
// gets enough to find the password out, or asks for it in clear.
//
// addr is where the password would go, a path being that of a socket, and cfg how it is encrypted: nil if it is not. Against
// the rule CheckPassword returns an error that says what to do, or, if that is allowed, logs a warning and returns nil.
func CheckPassword(addr string, cfg *tls.Config, allowed bool, log *slog.Logger) error {
	var how string
	switch {
	case strings.HasPrefix(addr, "/"), OnThisMachine(addr), cfg != nil && proves(cfg):
		return nil
	case cfg == nil:
		how = "in clear"
	default:
		how = "whoever answers there, since nobody checks the certificate"
	}
	if allowed {
		log.Warn("a password is sent to another machine, which does not prove who it is", "address", addr, "sent", how)
		return nil
	}
	return fmt.Errorf("the password would go to %s, %s: use TLS and check the certificate, or WithCleartextPassword "+
		"(cleartext=yes in a URL) if nobody can listen on the way, or answer", addr, how)
}

// proves reports whether a server must have a certificate that counts.
func proves(cfg *tls.Config) bool {
	return !cfg.InsecureSkipVerify || cfg.VerifyPeerCertificate != nil || cfg.VerifyConnection != nil
}
