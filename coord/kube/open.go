package kube

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Open opens a store in a namespace, whose default is the one of the pod that the program runs in. The API server and the
// credentials are those of the pod, too, unless options name others. While the API server is out of reach Open keeps trying,
// until ctx ends or, if ctx has no deadline, for 30 s.
//
// A token is not sent over plain HTTP, except to this machine (coord.ErrInvalid). A namespace that is not there is
// driver.ErrMissing. A right that is lacking is driver.ErrDenied.
func Open(ctx context.Context, namespace string, opts ...Option) (*Store, error) {
	c, err := configure(storekit.ToOpen, opts)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, namespace, c)
}

// openAt finds out where the API server is, and who we are.
func openAt(ctx context.Context, namespace string, c config) (_ *Store, err error) {
	if namespace, err = c.access.settle(namespace); err != nil {
		return nil, storekit.OneLine(err)
	}
	base, err := baseOf(c.access.server, namespace)
	if err != nil {
		return nil, err
	}
	way, err := newSender(c.access)
	if err != nil {
		return nil, storekit.OneLine(err)
	}
	return open(ctx, c, &http.Client{Transport: way}, base, way.close)
}

// openWith opens a store on a client of the user's.
func openWith(ctx context.Context, client *http.Client, server, namespace string, opts ...Option) (*Store, error) {
	c, err := configure(storekit.ToNew, opts)
	if err != nil {
		return nil, err
	}
	if a := c.access; a.server+a.tokenFile+a.caFile+a.certFile+a.keyFile+a.kubeconfig != "" {
		return nil, pkg.Invalid("where the API server is, and who we are, is for Connect and Open to be told: New is given a client that knows")
	}
	base, err := baseOf(server, namespace)
	if err != nil {
		return nil, err
	}
	return open(ctx, c, client, base, func() {})
}

func open(ctx context.Context, c config, client *http.Client, base *url.URL, hangUp func()) (*Store, error) {
	own := *client // the user's stays as it is
	own.Timeout = 0
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s := &Store{
		config: c, base: base, client: &own, hangUp: hangUp,
		known: storekit.NewKnown[*memory](),
		life:  driverkit.NewLife(context.Background()),
	}
	if err := pkg.TakeSteps(ctx, base.Redacted(), s.Log, s.remembers, s.mayAll); err != nil {
		s.Close()
		return nil, err
	}
	s.found.Store(true)
	return s, nil
}

// baseOf returns the URL of a namespace's leases.
func baseOf(server, namespace string) (*url.URL, error) {
	if !isLabel(namespace) {
		return nil, pkg.Invalid("the namespace %q: a namespace's name has lower-case letters, digits and hyphens", namespace)
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, pkg.Invalid("the server is no URL of the kind https://host:port") // it is not shown: a token may stand in it
	}
	if u.Port() != "" {
		if err := driverkit.CheckAddress(u.Host); err != nil {
			return nil, pkg.Invalid("the server: %w", err)
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host,
		Path: strings.TrimSuffix(u.Path, "/") + "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"}, nil
}

func (s *Store) remembers(ctx context.Context) error {
	_, err := s.recall(ctx)
	return err
}

// mayAll tries the rights that a holder needs later, so that one that is lacking is noticed before anybody relies on it: the
// mark of the memory has shown get and create already.
func (s *Store) mayAll(ctx context.Context) error {
	known, err := s.known.Current()
	if err != nil {
		return err
	}
	return s.tryRights(ctx, known)
}
