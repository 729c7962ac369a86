package server

import (
	"crypto/tls"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// pkg begins the errors about options and addresses: those are coord/redis's, also when several servers agree.
const pkg storekit.Package = "redis"

// Config is what the user of one Redis, or of several, may set.
type Config struct {
	storekit.Settings
	Root      string      // what keys and channels begin with; it ends with a colon
	Cleartext bool        // a password may go over connections that are not encrypted
	TLS       *tls.Config // nil: as the address says
}

// Configure applies options to a Config whose root is set, and checks it.
func Configure[O ~func(*Config)](way storekit.Way, root string, opts []O) (Config, error) {
	c := Config{Root: root}
	if err := storekit.Configure(pkg, way, &c, &c.Settings, opts); err != nil {
		return c, err
	}
	if !strings.HasSuffix(c.Root, ":") {
		c.Root += ":"
	}
	switch {
	case c.Root == ":":
		return c, pkg.Invalid("WithRoot(\"\"): the root must not be empty, lest keys mix with what others keep")
	case !utf8.ValidString(c.Root) || strings.IndexFunc(c.Root, unicode.IsControl) >= 0:
		return c, pkg.Invalid("WithRoot(%q): it must be valid UTF-8 without control characters", c.Root)
	}
	return c, nil
}
