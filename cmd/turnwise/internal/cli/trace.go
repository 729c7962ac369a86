//go:build linux || darwin

package cli

import (
	"fmt"
	"net/url"
	"os"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/trace"
)

// traced returns the observer that --trace asks for; nil: there is no --trace.
func (j *job) traced() (*coord.Observer, error) {
	if j.trace == "" {
		return nil, nil
	}
	f, err := os.OpenFile(j.trace, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, &failure{codeUnusable, err}
	}
	return trace.To(f, serviceName(j.to)), nil
}

// serviceName is the URL reduced to what says which lines are meant. For a directory it adds the machine, and the user if
// the directory is not named.
func serviceName(to *backend.Service) string {
	name := to.String()
	if u, err := url.Parse(name); err == nil {
		q := u.Query()
		q.Del("session")
		u.RawQuery = q.Encode()
		name = u.String()
	}
	if to.Scheme() != "file" {
		return name
	}
	if name == "file:" || name == "file://" {
		name = fmt.Sprintf("file://~%d", os.Getuid())
	}
	host, _ := os.Hostname()
	return name + " on " + host
}
