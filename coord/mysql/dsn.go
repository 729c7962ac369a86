package mysql

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// parse reads a DSN or a URL.
func parse(dsn string, log *slog.Logger) (*mysql.Config, error) {
	cfg, err := parseEither(dsn)
	if err == nil {
		err = cfg.Apply(mysql.Charset("utf8mb4", ""), // in some other charsets the last byte of a letter may be a quote
			mysql.EnableCompression(false)) // it hides what is in a packet, and how large that is
	}
	if err == nil && strings.HasPrefix(cfg.Net, "tcp") {
		err = driverkit.CheckAddress(cfg.Addr)
	}
	if err != nil {
		return nil, pkg.Invalid("the address: %w", err)
	}
	cfg.InterpolateParams = true // a request is one trip
	cfg.MultiStatements = false
	cfg.ClientFoundRows = false // a swap counts what it has changed
	cfg.CheckConnLiveness = true
	cfg.RejectReadOnly = false
	cfg.AllowAllFiles = false                // or a server could ask for any file of ours
	cfg.ReadTimeout, cfg.WriteTimeout = 0, 0 // our contexts are the only limits we want
	cfg.MaxAllowedPacket = 0                 // ask the server
	cfg.Logger = quiet{log}
	if cfg.Timeout == 0 {
		cfg.Timeout = 3 * time.Second
	}
	if cfg.ConnectionAttributes == "" {
		cfg.ConnectionAttributes = "program_name:turnwise"
	}
	return cfg, nil
}

// checkPassword looks where a password would go. The server chooses how it wants to have it.
func (c *config) checkPassword(cfg *mysql.Config) error {
	if cfg.Passwd == "" {
		return nil
	}
	address, encrypted := cfg.Addr, cfg.TLS
	switch {
	case cfg.Net == "unix":
		address = driverkit.Socket(address)
	case !strings.HasPrefix(cfg.Net, "tcp"):
		address = cfg.Net + "(" + cfg.Addr + ")" // wherever that leads
	}
	if cfg.AllowFallbackToPlaintext {
		encrypted = nil
	}
	if err := driverkit.CheckPassword(address, encrypted, c.cleartext, c.Log); err != nil {
		return pkg.Invalid("%w; for TLS say tls=true", err)
	}
	return nil
}

var errDSN = errors.New("write user:password@tcp(host:3306)/database, or mysql://user:password@host:3306/database")

// parseEither shows nothing of the DSN in its errors: there may be a password in it.
func parseEither(dsn string) (*mysql.Config, error) {
	scheme, _, isURL := strings.Cut(dsn, "://")
	if !isURL || scheme != "mysql" && scheme != "mariadb" {
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			return nil, errDSN
		}
		return cfg, nil
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return nil, errDSN
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	cfg, err := mysql.ParseDSN("tcp(" + addr + ")/?" + u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("what is behind the ? of the URL: %w", err)
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	return cfg, nil
}

// quiet logs what the client library has to say at a level that alarms nobody: we return what matters.
type quiet struct{ log *slog.Logger }

func (q quiet) Print(v ...any) { q.log.Debug("mysql: " + strings.TrimSpace(fmt.Sprint(v...))) }
