package backend

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// Service is a service that a URL names. It has not been asked anything, and no file has been read.
type Service struct {
	target  *target
	connect connect
}

// Open connects to the service of a URL. Closing the client closes everything. While the service is out of reach, Open
// tries again: until ctx ends or, if ctx has no deadline, for 30 s.
//
// An error that is coord.ErrInvalid says what is wrong with the URL, or with a file or a variable that it names; then
// the service was asked nothing.
func Open(ctx context.Context, url string, opts ...Option) (*coord.Client, error) {
	s, err := Parse(url)
	if err != nil {
		return nil, err
	}
	return s.Connect(ctx, opts...)
}

// Parse takes a URL apart. The error, which is coord.ErrInvalid, shows no password.
func Parse(url string) (*Service, error) {
	t, err := parse(url)
	if err != nil {
		return nil, err
	}
	t.rename()
	open, ok := services[t.scheme]
	switch {
	case !ok:
		return nil, t.wrong("no service is called %q: %s", t.scheme, suggestion(t.scheme))
	case open == nil:
		return nil, t.wrong("this program was built without %s (turnwise_no_%s)", t.scheme, t.scheme)
	}
	c, err := open(t)
	if err == nil {
		err = t.params.rest()
	}
	if err != nil {
		return nil, t.wrong("%w", err)
	}
	return &Service{t, c}, nil
}

// Connect is Open for a URL that has been parsed. Each client has a session of its own.
func (s *Service) Connect(ctx context.Context, opts ...Option) (*coord.Client, error) {
	c := config{log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	if c.ttl == 0 {
		c.ttl = s.target.session
	} else if err := checkSession(c.ttl); err != nil {
		return nil, s.target.wrong("%w", err)
	}
	if err := s.target.checkLongest(c.ttl); err != nil {
		return nil, s.target.wrong("%w", err)
	}
	c.longest = s.target.longest
	client, err := s.connect(ctx, c)
	if bad, ok := err.(unreadable); ok {
		return nil, s.target.wrong("%w", bad.error)
	}
	return client, err
}

// Scheme returns what the URL begins with: "file", "zk" and so on.
func (s *Service) Scheme() string { return s.target.scheme }

// Directory returns the directory of a service of files, and "" for other services.
func (s *Service) Directory() string {
	if s.target.scheme != "file" {
		return ""
	}
	dir, _, _ := s.target.directory()
	return dir
}

// Hosts returns how many hosts the URL names.
func (s *Service) Hosts() int { return len(s.target.hosts) }

// String returns the URL without secrets.
func (s *Service) String() string { return s.target.shown }

// ID is the same for URLs that name the same service in the same words, and another for each other one. It is a short text
// without secrets. Neither the password counts, nor how long a session lasts.
func (s *Service) ID() string { return s.target.id() }

// HasPassword reports whether the URL itself contains a password.
func (s *Service) HasPassword() bool { return s.target.inline != "" }

// Private reports whether the service is a directory that only its owner may enter, or one of the user's that is not there yet.
func (s *Service) Private() bool { return s.target.private() }

// Option sets up what Open returns. A nil Option changes nothing.
type Option func(*config)

type config struct {
	ttl     time.Duration
	longest time.Duration
	log     *slog.Logger
	client  []coord.Option
}

// WithTTL sets how long a session lasts if nothing is heard from it, whatever the URL says. On file it changes nothing.
func WithTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// WithLogger logs what the driver rides out. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		if l != nil {
			c.log = l
		}
	}
}

// WithClient passes options on to the coord.Client.
func WithClient(opts ...coord.Option) Option {
	return func(c *config) { c.client = append(c.client, opts...) }
}

// names are what other programs call a service in their URLs. What ends in an s asks for encryption.
var names = map[string]string{
	"zookeeper": "zk", "zks": "zk+tls", "etcds": "etcd+tls", "etcd3": "etcd", "rediss": "redis+tls", "valkey": "redis", "valkeys": "redis+tls",
	"postgresql": "postgres", "pg": "postgres", "pgsql": "postgres", "mariadb": "mysql", "memcache": "memcached",
	"kubernetes": "kube", "k8s": "kube",
}

// rename gives a service that was called by such a name the one that it has here.
func (t *target) rename() {
	name, tls := strings.CutSuffix(names[t.scheme], "+tls")
	if name == "" {
		return
	}
	t.scheme = name
	if tls && !t.params.values.Has("tls") {
		t.params.values.Set("tls", "yes")
	}
}

// suggestion says what to write instead of a name that is no service's.
func suggestion(scheme string) string {
	all := Schemes()
	for _, known := range slices.Sorted(maps.Keys(services)) {
		if len(scheme) > 1 && (strings.HasPrefix(known, scheme) || strings.HasPrefix(scheme, known)) {
			return fmt.Sprintf("did you mean %s? There are %s", known, strings.Join(all, ", "))
		}
	}
	return "use " + strings.Join(all, ", ")
}

// Schemes returns the schemes of the services that this program was built with.
func Schemes() []string {
	built := maps.Clone(services)
	maps.DeleteFunc(built, func(_ string, o opener) bool { return o == nil })
	return slices.Sorted(maps.Keys(built))
}

// opener takes from a URL what its service needs to know.
type opener func(t *target) (connect, error)

type connect func(ctx context.Context, c config) (*coord.Client, error)

// services has an opener for each service that was not left out.
var services = map[string]opener{
	"file": files, "zk": nil, "etcd": nil, "redis": nil, "postgres": nil, "mysql": nil, "memcached": nil,
	"nats": nil, "kube": nil,
}

// unreadable is an error about a file or a variable that a URL names.
type unreadable struct{ error }

func checkSession(d time.Duration) error {
	if d < minSession || d > maxSession {
		return fmt.Errorf("a session of %v: it must be from %v to %v", d, minSession, maxSession)
	}
	return nil
}

const (
	minSession = 500 * time.Millisecond
	maxSession = 24 * time.Hour
)
