package server

import (
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// Address is where a Server is, and how to get there.
type Address struct {
	Name   string // without secrets
	config Config
	option rueidis.ClientOption
}

// Parse reads an address as [github.com/turnwise/turnwise/coord/redis.Open] takes it.
func Parse(address string, c Config) (Address, error) {
	option, err := parse(address)
	if err != nil {
		return Address{}, err
	}
	for _, a := range option.InitAddress {
		if err := driverkit.CheckAddress(a); err != nil && !isPath(a) {
			return Address{}, pkg.Invalid("%w", err)
		}
	}
	if c.TLS != nil {
		option.TLSConfig = c.TLS
	}
	if option.Password != "" {
		for _, a := range option.InitAddress {
			if err := driverkit.CheckPassword(a, option.TLSConfig, c.Cleartext, c.Log); err != nil {
				return Address{}, pkg.Invalid("open %s: %w", a, err)
			}
		}
	}
	tune(&option)
	return Address{Name: strings.Join(option.InitAddress, ","), config: c, option: option}, nil
}

// HasSentinels reports whether the address is that of sentinels, which lead to another server after a fail-over.
func (a Address) HasSentinels() bool { return a.option.Sentinel.MasterSet != "" }

func parse(address string) (option rueidis.ClientOption, err error) {
	if !strings.Contains(address, "://") {
		if strings.Contains(address, "@") { // what is before it may be a password
			return option, pkg.Invalid("an address with a user or a password is a URL: redis://user:password@host:6379/0")
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return option, pkg.Invalid("%q is neither host:port nor a URL such as redis://host:6379/0", address)
		}
		option.InitAddress = []string{address}
		return option, nil
	}
	if option, err = rueidis.ParseURL(address); err != nil {
		scheme, _, _ := strings.Cut(address, "://") // the rest may hold a password, and so may the error
		return option, pkg.Invalid("the URL %q is not one of the kind redis://user:password@host:6379/0, "+
			"rediss://… or unix:///…", scheme+"://…")
	}
	return option, nil
}

// isPath reports whether an address is that of a socket in the file system.
func isPath(address string) bool { return strings.HasPrefix(address, "/") }

// tune sets what the library does with its connections. It must not send anything again by itself: whether a swap that got
// no answer was applied is for the caller to find out.
func tune(option *rueidis.ClientOption) {
	option.DisableCache, option.DisableRetry = true, true
	option.ForceSingleClient = option.Sentinel.MasterSet == ""
	option.PipelineMultiplex = -1
	option.ReadBufferEachConn, option.WriteBufferEachConn = 64<<10, 64<<10
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = 3 * time.Second
	}
	if option.ConnWriteTimeout == 0 {
		option.ConnWriteTimeout = 5 * time.Second
	}
	if option.Sentinel.MasterSet != "" {
		option.Sentinel.TopologyRefreshInterval = 5 * time.Second
		option.Sentinel.Dialer.Timeout = option.Dialer.Timeout
		option.Sentinel.TLSConfig = option.TLSConfig // who says where the master is has to prove who he is as well
	}
}
