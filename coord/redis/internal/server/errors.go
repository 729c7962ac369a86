package server

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// ErrReplica says that the server follows another one, as after a fail-over. It may pass.
var ErrReplica = errors.New("the server is a replica and does not write")

// errElse says that something else is at the address than what was asked for.
var errElse = errors.New("wrong address")

// AtOpening has the tries to open a store end if something else is at the address. Later, an answer that is not Redis's may
// be that of a proxy in between, and passes.
func AtOpening(err error) error {
	if errors.Is(err, errElse) {
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return err
}

// ErrStrange is for an answer that no Redis gives: something in between may have changed it, and it may pass.
var ErrStrange = errors.New("the server's answer is not what was asked for")

const noRights = "the user may not do all that is needed; see \"Rights\" in the documentation of coord/redis"

// denials are the first words of the refusals that no retry mends (the library takes ERR away), and what to do about them.
// All others may pass by themselves: LOADING, BUSY, OOM, MISCONF, NOREPLICAS, MASTERDOWN, READONLY.
var denials = []struct{ says, hint string }{
	{"NOAUTH", "it wants a password"},
	{"WRONGPASS", "the user name or the password is wrong"},
	{"NOPERM", noRights},
	{"The user executing the script can't", noRights}, // Redis 7.0
	{"ACL failure in script", noRights},               // later ones, and Valkey
	{"WRONGTYPE", "something else stands under one of its keys: use another root"},
	{"unknown command", "the server does not know a command that is needed: it takes Redis 6.2 or newer, or Valkey"},
	{"DENIED", "the server is in protected mode: it wants a password or a bind address"},
	{"This instance has cluster support", "it is part of a cluster"},
}

// explain says what an error of the server or the connection means.
func explain(err error) error { return storekit.Explain(err, advise) }

func advise(err error) (says string, class error) {
	if storekit.IsUntrusted(err) {
		return "its TLS certificate is not to be trusted", driver.ErrDenied
	}
	text := err.Error()
	if answer, ok := rueidis.IsRedisErr(err); ok {
		text = answer.Error()
		if strings.HasPrefix(text, "DB index") || strings.HasPrefix(text, "invalid DB") {
			return "there is no database of that number", driver.ErrMissing
		}
		for _, d := range denials {
			// In 6.2 a refusal within a script begins with other words.
			if strings.HasPrefix(text, d.says) || strings.Contains(text, "-"+d.says) || strings.Contains(text, ": "+d.says) {
				return d.hint, driver.ErrDenied
			}
		}
		if strings.HasPrefix(text, "READONLY") {
			return "", ErrReplica
		}
		return "", nil
	}
	for _, riddle := range []struct{ says, hint string }{
		{"unknown message type", "what answers there is not Redis"},
		{"first record does not look like a TLS handshake", "it does not speak TLS: use redis:// instead of rediss://"},
		{"tls: certificate required", "it wants a certificate of the client's"},
		{"tls: bad certificate", "it does not take the client's certificate"},
	} {
		if strings.Contains(text, riddle.says) {
			return riddle.hint, errElse
		}
	}
	if errors.Is(err, io.EOF) {
		return "it hangs up, as a server may that speaks TLS (rediss://)", nil
	}
	return "", nil
}
