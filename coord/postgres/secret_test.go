package postgres

import (
	"strings"
	"testing"
	"time"
)

// Whatever is wrong with an address, its error shows no password.
func TestAnErrorShowsNoPassword(t *testing.T) {
	for _, dsn := range []string{
		"host=127.0.0.1 user=u password=secret sslmode=bogus",
		"host=127.0.0.1 user=u password = secret sslmode=bogus",
		"host=127.0.0.1 user=u password\t=\tsecret sslmode=bogus",
		"host=127.0.0.1 user=u password=\tsecret sslmode=bogus",
		`host=127.0.0.1 user=u password='it\'s secret' sslmode=bogus`,
		`host=127.0.0.1 user=u password=its\ secret sslmode=bogus`,
		"host=127.0.0.1 user=u password='a secret' sslmode=bogus",
		"host=127.0.0.1 user=u password='a secret sslmode=bogus",
		"host=127.0.0.1 user=u sslpassword=secret sslmode=bogus",
		"postgres://me:sec:secret@127.0.0.1:54x/db",
		"postgres://me:a/secret@127.0.0.1:54/db?sslmode=bogus",
		"postgres://me:a?secret@127.0.0.1:54/db?sslmode=bogus",
		"postgres://me:a#secret@127.0.0.1:54/db?sslmode=bogus",
		"postgres://me:a@secret@127.0.0.1:54/db?sslmode=bogus",
		"postgres://me:%zzsecret@127.0.0.1:54/db?sslmode=bogus",
		"postgres://me@127.0.0.1:54/db?password=secret&sslmode=bogus",
		"postgres://me@127.0.0.1:54/db?password=a&password=secret&sslmode=bogus",
		"postgresql://me:secret @127.0.0.1:54/db?sslmode=bogus",
		" postgres://me:secret@127.0.0.1:54/db?sslmode=bogus",
		"POSTGRES://me:secret@127.0.0.1:54/db?sslmode=bogus",
		"postgres://me:secret@127.0.0.1:54/db?pool_max_conns=many",
		"host=127.0.0.1 user=u password = secret pool_max_conns=many",
		"host=127.0.0.1 user=u password = secret pool_max_conn_lifetime=many",
	} {
		s, err := Open(within(t, time.Second), dsn)
		if err == nil {
			s.Close()
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s\n\tshows: %v", dsn, err)
		}
		_, err = Open(within(t, time.Second), "postgres://me@127.0.0.1:1/db?sslmode=disable", WithListenURL(dsn))
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("listening, %s\n\tshows: %v", dsn, err)
		}
	}
}
