package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Open returns a store in the JetStream of the server at an address: host, host:port, or a URL as in
//
//	nats://user:password@host:4222
//	nats://token@host
//	tls://host                        over TLS
//
// Open checks that the server can do all that is needed, and that the user may. While the server is out of reach it keeps
// trying, until ctx ends or, if ctx has no deadline, for 30 s. ctx governs no more than that. Close ends the connection.
//
// A password or a token is sent as it is. So it is refused, unless the address is on this machine or the server has to show a
// certificate that is checked; see [WithCleartextPassword].
func Open(ctx context.Context, address string, opts ...Option) (*Store, error) {
	c, err := configure(storekit.ToOpen, opts)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, address, c)
}

func openAt(ctx context.Context, address string, c config) (*Store, error) {
	options, err := parse(address, &c)
	if err != nil {
		return nil, err
	}
	return open(ctx, c, options, strings.TrimPrefix(options.Url, "nats://"))
}

func open(ctx context.Context, c config, options natsgo.Options, address string) (*Store, error) {
	s := &Store{config: c, options: options, known: storekit.NewKnown[*memory](), life: driverkit.NewLife(context.Background())}
	s.link.next = make(chan struct{})
	s.ears.topics = make(map[string]map[*ear]struct{})
	s.life.Go(s.keepConnected)
	if err := pkg.TakeSteps(ctx, address, c.Log, s.remembers); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// remembers looks for the memory, or begins one, and tries what a holder needs later.
func (s *Store) remembers(ctx context.Context) error {
	if _, err := s.recall(ctx); err != nil {
		return err
	}
	return s.mayAll(ctx)
}

// parse makes an address the client library's options.
func parse(address string, c *config) (options natsgo.Options, err error) {
	scheme, rest, isURL := strings.Cut(address, "://")
	if !isURL {
		if strings.Contains(address, "@") { // what is before it may be a password
			return options, pkg.Invalid("an address with a user or a password is a URL: nats://user:password@host:4222")
		}
		scheme, rest = "nats", address
	}
	u, err := url.Parse("nats://" + rest)
	if err != nil || scheme != "nats" && scheme != "tls" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return options, pkg.Invalid("the address %q is not one of the kind nats://user:password@host:4222 or tls://host", scheme+"://…")
	}
	at := u.Host
	if u.Port() == "" {
		at = net.JoinHostPort(u.Hostname(), "4222")
	}
	if u.Hostname() == "" || strings.Contains(u.Host, ",") {
		return options, pkg.Invalid("the address %q is not host:port, of one server", at)
	}
	if err := driverkit.CheckAddress(at); err != nil {
		return options, pkg.Invalid("%w", err)
	}
	options = natsgo.GetDefaultOptions()
	options.Url = "nats://" + at
	return options, authenticate(&options, c, at, scheme == "tls", u.User)
}

// authenticate adds whom to trust, and who we are.
func authenticate(options *natsgo.Options, c *config, at string, encrypt bool, user *url.Userinfo) error {
	if encrypt || c.tls != nil {
		options.Secure, options.TLSConfig = true, c.tls
		if options.TLSConfig == nil {
			options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	if user != nil {
		if err := driverkit.CheckPassword(at, options.TLSConfig, c.cleartext, c.Log); err != nil {
			return pkg.Invalid("open %s: %w", at, err)
		}
		password, has := user.Password()
		if has {
			options.User, options.Password = user.Username(), password
		} else {
			options.Token = user.Username()
		}
	}
	if c.credentials != "" {
		if err := natsgo.UserCredentials(c.credentials)(options); err != nil {
			return storekit.OneLine(pkg.Invalid("WithCredentials: %w", err))
		}
	}
	return nil
}

// mayAll tries the rights that a holder needs later, so that one that is lacking is noticed before anybody relies on it. The look
// for the memory has tried the others.
func (s *Store) mayAll(ctx context.Context) error {
	err := s.with(ctx, func(c *conn, known *memory) error {
		if _, err := s.lastOf(ctx, c, known.subject(s.root, "rights")); err != nil && !isCode(err, noMessage) { // whatever somebody has put there
			return err
		}
		// A number that no message has: it is refused for that if we may publish.
		w := register.Swap{Key: "rights", Next: register.NewVersion()}
		if err := s.publish(ctx, c, known, &w, 1<<62); !isCode(err, wrongSequence, wrongSequenceToo) {
			return fmt.Errorf("a swap that was to be refused: %w", err)
		}
		// Neither of these can be done: the one names two streams, the other one that nobody can make, since its name has a slash.
		err := c.api(ctx, "STREAM.CREATE."+s.root, map[string]string{"name": s.root + "-other"}, nil)
		if err = unlessRefused(err); err == nil {
			err = unlessRefused(c.api(ctx, "STREAM.DELETE."+s.root+"/none", nil, nil))
		}
		return err
	})
	return explain(err)
}

// unlessRefused takes JetStream's no for an answer: it was asked.
func unlessRefused(err error) error {
	var no *apiError
	if errors.As(err, &no) {
		return nil
	}
	return err
}
